"""The dialect of the gold SQL: that of the databases, or translated because the settings ask for it, never silently."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.core.errors import ConfigurationError
from tasks.core.records import Question
from tasks.database.database import dialect_named
from tasks.database.engine import Engine
from tasks.database.schema import Schema
from tasks.settings.benchmark import BenchmarkSettings
from tasks.sql.transpiling import transpile


@dataclass(frozen=True, slots=True)
class TranslatedGold:
    """Gold SQL that sqlglot has translated."""

    # the translated gold SQL by question id; one that cannot be translated is as it was
    gold: Mapping[str, str] = field(repr=False)
    note: str  # what was done, in sentences


def gold_for(
    settings: BenchmarkSettings,
    engine: Engine,
    gold: Mapping[str, str],
    questions: tuple[Question, ...],
    schemas: Mapping[str, Schema],
) -> TranslatedGold | None:
    """Translate the gold SQL if the settings ask for it; return None where it is used as it is.

    Gold SQL is given by question id, schemas by database id.

    Raises:
        ConfigurationError: the gold SQL is of another dialect than the databases, or its dialect is not known.
    """
    if not gold:
        return None
    if settings.url and not settings.dialect:
        raise ConfigurationError(
            f"{settings.name}: benchmark.url names databases of {engine.name}; in which dialect is the gold SQL? Add "
            f"`dialect: {engine.name}` to the benchmark's YAML file, or the dialect that it is in."
        )
    written = dialect_named(settings.dialect) if settings.dialect else engine.dialect
    if written == engine.dialect:
        return None
    if not settings.transpile_gold:
        raise ConfigurationError(
            f"{settings.name}: its gold SQL is of the dialect {settings.dialect}, its databases are of {engine.name}. "
            f"{_remedy(settings, engine)}"
        )
    columns = {
        name: {column.column.lower() for column in schema.column_names} for name, schema in schemas.items()
    }
    of = {question.id: columns.get(question.database_id, set()) for question in questions}
    found = {name: transpile(sql, written, engine.dialect, of.get(name, set())) for name, sql in gold.items()}
    changed = sum(each.changed for each in found.values())
    unread = [name for name, each in found.items() if each.problem]
    left = (
        f" {len(unread):,} could not be translated and are as they were: {', '.join(unread[:10])}."
        if unread
        else ""
    )
    return TranslatedGold(
        {name: each.sql for name, each in found.items()},
        f"The gold SQL was translated from {settings.dialect} to {engine.name} by sqlglot; {changed} of {len(found)} "
        f"with other text than before.{left} Scores against it are not the benchmark's and are not ranked. "
        "Demonstrations are as they were written.",
    )


def _remedy(settings: BenchmarkSettings, engine: Engine) -> str:
    translate = (
        'With "--set benchmark.transpile_gold=true" sqlglot translates it; reports then say so, and such runs are '
        "not ranked."
    )
    if settings.has_dialects:
        return (
            f'The benchmark may have it in that dialect: "--set benchmark.dialect={engine.name}". {translate}'
        )
    return f'Use databases of that dialect ("--set benchmark.url=..." or the files). {translate}'
