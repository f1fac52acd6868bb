"""The answer keys that `benchmark.answer_keys` names: files, and benchmarks whose golds are the key."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tasks.benchmarks.expected_files import demand_questions, notes_on_revision
from tasks.benchmarks.files.readers import read_json
from tasks.benchmarks.keys.complete import read_file, read_split
from tasks.benchmarks.keys.corrections import read_corrections
from tasks.benchmarks.keys.key import AnswerKey, Official
from tasks.benchmarks.layouts.base import SearchPaths, Split, layout_of
from tasks.core.errors import ConfigurationError, DataError
from tasks.settings.benchmark import OFFICIAL, BenchmarkSettings, key_name, key_reference
from tasks.settings.load import available, load_benchmark_settings

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


def read_keys(
    settings: BenchmarkSettings, split: Split, places: SearchPaths, dialect: str
) -> tuple[AnswerKey, ...]:
    """Read the keys of a benchmark's settings, in their order.

    `dialect` is that of its databases.

    Raises:
        CrosscheckError: a key cannot be read, or is of another SQL dialect than the databases.
    """
    official = Official(
        settings.name,
        {question.id: question for question in split.questions},
        {name: (sql, *split.further_gold.get(name, ())) for name, sql in split.gold.items()},
    )
    return tuple(read_key(item, official, settings, places, dialect) for item in settings.answer_keys)


def read_key(
    item: str, official: Official, settings: BenchmarkSettings, places: SearchPaths, dialect: str
) -> AnswerKey:
    """Read one key: `name`, `file` or `name=file`, as in `benchmark.answer_keys`. "official" is the benchmark's own.

    What is wrong with its content is in its `problems`.

    Raises:
        CrosscheckError: it cannot be read, or is of another SQL dialect than the databases.
    """
    name, reference = key_name(item), key_reference(item)
    if item == OFFICIAL:
        return AnswerKey(
            OFFICIAL, Path(settings.questions if isinstance(settings.questions, str) else ""), "", {}
        )
    if Path(reference).suffix.lower() in (*TABLES, ".json"):
        return read_key_file(name, Path(reference).expanduser(), official)
    return _profile(name, reference, official, settings, places, dialect)


def read_key_file(name: str, file: Path, official: Official) -> AnswerKey:
    """Read a file of corrections, or of ids and SQL; its form follows from its content.

    Raises:
        DataError: it cannot be read, or is neither.
    """
    content = read_json(file) if file.suffix.lower() == ".json" else None
    if isinstance(content, dict) and isinstance(content.get("corrections"), list):
        return read_corrections(name, file, content, official)
    if content is None or (isinstance(content, list) and content):
        return read_file(name, file, official)
    raise DataError(
        f'{file} is no answer key. It must hold an object with the key "corrections", a list of objects; or a list of '
        "objects with question_id and SQL, as BIRD's files do. JSON lines and CSV with these columns are read, too."
    )


def _profile(
    name: str,
    reference: str,
    official: Official,
    settings: BenchmarkSettings,
    places: SearchPaths,
    dialect: str,
) -> AnswerKey:
    known: Sequence[str] = tuple(available(places.conf, "benchmark"))
    try:
        found = load_benchmark_settings(places.conf, reference)
    except ConfigurationError as error:
        if reference in known or reference.endswith((".yaml", ".yml")):
            raise
        raise ConfigurationError(
            f"benchmark.answer_keys: {error} A key is one of these benchmarks, or a file that ends in "
            ".json, .jsonl, .csv or .tsv."
        ) from None
    if found.has_dialects:
        found = found.model_copy(update={"dialect": settings.dialect or found.dialect})
    if dialect and found.dialect and found.dialect != dialect:
        raise ConfigurationError(
            f"benchmark.answer_keys: the key {name} is written in {found.dialect}, the databases of {settings.name} "
            f"are {dialect}. Name a key in that dialect."
        )
    layout = layout_of(found.layout)
    folder = layout.folder(found, places)
    files = demand_questions(found, folder)
    key = read_split(name, files, layout.load(found, folder, files), official)
    return replace(key, notes=tuple(notes_on_revision(found, folder)))
