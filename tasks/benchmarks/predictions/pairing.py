"""Pairs predictions with the questions of a benchmark: by question id, by line only where a format has nothing else."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from tasks.backbone.replies.sql_text import read_sql
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.formats import PredictionEntry, PredictionFile, says_predicted, sql_or_none
from tasks.benchmarks.rows import Row, json_line_rows, json_rows, read_text
from tasks.core.errors import DataError
from tasks.core.records import Question
from tasks.core.wording import counted, shorten

MIN_PREDICTIONS = 5
"""Fewest predictions for which the pairing is checked."""
BETTER = 0.15
"""Margin by which another pairing must share more words; correct pairings share about 0.6."""


def about_pairing(file: PredictionFile, sqls: Mapping[str, str], benchmark: Benchmark) -> tuple[str, ...]:
    """Return a warning if another pairing, by id or by position, fits the questions better; else ().

    `sqls` are the predictions by question id, as they were paired. A pairing fits better if its SQL shares more words
    with the gold, by more than `BETTER`.
    """
    likeness = _likeness(sqls, benchmark.gold)
    by_id = {entry.question_id: entry.sql for entry in file.entries if entry.question_id and entry.sql}
    entries_in_order = _in_order(file, benchmark)  # empty if there is not one for each question
    in_order = zip(benchmark.questions, entries_in_order, strict=False)
    by_position = {question.id: entry.sql for question, entry in in_order if entry.sql}
    id_advice = "Name them question_id, one for each prediction."
    if file.reading.by_position:
        id_advice = "Leave out --by-position."
    for way, pairing, advice in (
        ("question id", by_id, id_advice),
        ("position", by_position, "--by-position reads them so."),
    ):
        other_likeness = _likeness(pairing, benchmark.gold)
        if other_likeness > likeness + BETTER:
            return (
                f"The predictions seem to be paired with the wrong questions. Paired by {way}, they share "
                f"{other_likeness:.0%} of their words with the gold SQL; as they were read, {likeness:.0%}. {advice}",
            )
    return ()


def _likeness(sqls: Mapping[str, str], gold: Mapping[str, str]) -> float:
    """Return the mean share of common words of predictions and golds, 0 for too few of them."""
    pairs = [(_words(sql), _words(gold[name])) for name, sql in sqls.items() if name in gold]
    if len(pairs) < max(MIN_PREDICTIONS, len(sqls) / 2):
        return 0.0
    return fmean(len(one & other) / len(one | other) if one | other else 1.0 for one, other in pairs)


def _words(sql: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", sql.lower()))


MAX_GOLD_SHARE = 0.6
"""Share of predictions that may be the gold's text, before it is remarked on or their column counts as the gold's."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions by question."""

    file: PredictionFile  # where they come from
    # SQL by question id; a question that the file leaves out, or has nothing for, is absent
    sqls: Mapping[str, str]
    notes: tuple[str, ...] = ()  # what a user should know about the pairing, in sentences
    copies_gold: bool = False  # whether most of them are the text of the gold SQL


_Pairs = Sequence[tuple[Question, PredictionEntry]]


def pair(file: PredictionFile, benchmark: Benchmark) -> Predictions:
    """Pair a file of predictions with all questions of a benchmark.

    Lines are matched with positions in the whole question file, independent of which questions are scored. Ids that
    the benchmark does not have are left out, with a note. The keys of a submission in BIRD's form are question ids; but
    they are positions, as in BIRD mini-dev's published outputs, if the databases that the file names are those of the
    questions at these positions, and not those of the questions with these ids.
    """
    pairs, pairing_note = _paired(file, benchmark)
    for question, entry in pairs:
        _demand_database(file, entry, question, benchmark)
    sql_by_id = {question.id: sql for question, entry in pairs if (sql := sql_or_none(entry.sql))}
    why_unwrapped = "as Spider 2.0's evaluator does" if benchmark.settings.rule == "subset" else ""
    if file.reading.unwrap:
        why_unwrapped = "--unwrap"
    sqls = {name: unwrapped(sql) for name, sql in sql_by_id.items()} if why_unwrapped else sql_by_id
    gold = benchmark.gold
    copies = sum(_tokens(sql) == _tokens(gold.get(name, "")) for name, sql in sqls.items())
    _refuse_gold(file, copies, len(sqls))
    copies_gold = len(sqls) >= MIN_PREDICTIONS and copies > MAX_GOLD_SHARE * len(sqls)
    about_gold = (
        f"{copies:,} of {len(sqls):,} predictions are the text of the gold SQL. Does the file hold the gold in the "
        "place of predictions? --sql-column names another column. The run is not ranked."
    )
    notes = (
        pairing_note,
        *about_wrapping(sql_by_id.values(), why_unwrapped),
        about_gold if copies_gold else "",
        *about_pairing(file, sqls, benchmark),
    )
    return Predictions(file, sqls, tuple(note for note in notes if note), copies_gold)


def _tokens(sql: str) -> list[str]:
    """Return what a SQL consists of, however it is spaced and spelled."""
    return re.findall(r"\w+|[^\w\s]", sql.lower())


def _paired(file: PredictionFile, benchmark: Benchmark) -> tuple[_Pairs, str]:
    """Return questions with their predictions, and what a user should know about the pairing; "" for nothing."""
    if file.format == "lines":
        return _by_line(file, benchmark), ""
    if file.reading.by_position:
        return _by_position(file, benchmark), ""
    if file.format == "bird" and _keys_are_positions(file, benchmark):
        return _by_position(file, benchmark), (
            f"The keys of {file.path.name} are positions from 0, not question ids: prediction N was taken for "
            "question N of the file, whose database it names."
        )
    return _by_id(file, benchmark)


def _in_order(file: PredictionFile, benchmark: Benchmark) -> Sequence[PredictionEntry]:
    """Return the predictions in the order of the questions; () where there is not one for each.

    Positions count from 0. In BIRD's form the key of a prediction is its position, elsewhere its place in the file.
    """
    by_position = {str(position): entry for position, entry in enumerate(file.entries)}
    if file.format == "bird":
        by_position = {entry.question_id or "": entry for entry in file.entries}
    positions = [str(position) for position in range(len(benchmark.questions))]
    if by_position.keys() != set(positions):
        return ()
    return [by_position[position] for position in positions]


def _keys_are_positions(file: PredictionFile, benchmark: Benchmark) -> bool:
    """Return whether the databases that a file names fit its keys only if these are positions, and not question ids."""
    databases = [question.database_id.lower() for question in benchmark.questions]
    named_by_id = {entry.question_id: (entry.database_id or "").lower() for entry in file.entries}
    by_id = [named_by_id.get(question.id) for question in benchmark.questions]
    by_position = [(entry.database_id or "").lower() for entry in _in_order(file, benchmark)]
    return by_position == databases and by_id != databases


def _by_position(file: PredictionFile, benchmark: Benchmark) -> _Pairs:
    """Pair prediction N with question N."""
    questions = benchmark.questions
    without_number = [entry for entry in file.entries if not (entry.question_id or "").isdecimal()]
    if file.format == "bird" and without_number:
        raise DataError(
            f"{file.path}, {without_number[0].location}: with --by-position, a key is a number from 0."
        )
    if not (in_order := _in_order(file, benchmark)):
        raise DataError(
            f"{file.path} has {counted(len(file.entries), 'prediction')}, but {benchmark.settings.name} has "
            f"{counted(len(questions), 'question')}: by position, there must be one for each, from 0 on, also where "
            "only some questions are scored. To hand in a part, give each prediction its question_id."
        )
    return list(zip(questions, in_order, strict=True))


def _refuse_gold(file: PredictionFile, copies: int, predictions: int) -> None:
    """Raise an error if the column that was taken for the predictions holds the gold SQL.

    Files of other systems are often the question records with a field for the answer, and their column "sql" or "query"
    is the gold. A column is accepted if the user or its name says that it holds predictions, or if the file has no
    other text than ids and SQL.
    """
    column = file.entries[0].column
    is_certain = file.reading.sql_column is not None or column is None or says_predicted(column)
    other_columns = dict.fromkeys(name for entry in file.entries for name in entry.other_texts)
    if is_certain or not other_columns or copies <= MAX_GOLD_SHARE * predictions:
        return
    listed = shorten([f'"{name}"' for name in other_columns], 10)
    held = f"{copies:,} of {counted(predictions, 'question')}"
    raise DataError(
        f'{file.path}: the column "{column}" holds the gold SQL of {held}, and not '
        f"predictions. The file also has {listed}. Name the column of the predictions with --sql-column (a.b for a key "
        f"within an object, a.0 for an item of a list), or give --sql-column {column!r} if these are the predictions."
    )


def _by_id(file: PredictionFile, benchmark: Benchmark) -> tuple[_Pairs, str]:
    """Return questions with the predictions of their ids, and a note on ids that are no question's, or ""."""
    questions = {question.id: question for question in benchmark.questions}
    entries: dict[str, PredictionEntry] = {}
    for entry in file.entries:
        identity = entry.question_id or ""
        if identity in entries:
            raise DataError(
                f"{file.path}, {entry.location}: question {identity} already has a prediction at "
                f"{entries[identity].location}. Keep one for each question."
            )
        entries[identity] = entry
    unknown = [identity for identity in entries if identity not in questions]
    if len(unknown) == len(entries):
        raise DataError(
            f"{file.path}: none of its ids is a question of {benchmark.settings.name}. They look "
            f'like "{unknown[0]}", the benchmark\'s like "{benchmark.questions[0].id}". '
            "Is it the file of another benchmark or split?"
        )
    pairs = [(questions[name], entry) for name, entry in entries.items() if name in questions]
    if not unknown:
        return pairs, ""
    return pairs, (
        f"Left out, for {benchmark.settings.name} has no such question: {counted(len(unknown), 'prediction')} "
        f"({shorten(unknown, 10)})."
    )


def _by_line(file: PredictionFile, benchmark: Benchmark) -> _Pairs:
    """Pair line N with question N; the last tab of a line separates the SQL from its database if all lines have one."""
    questions = benchmark.questions
    entries = list(file.entries)
    while len(entries) > len(questions) and entries[-1].sql is None:
        entries.pop()  # blank lines at the end of the file
    if len(entries) != len(questions):
        files = ", ".join(path.name for path in benchmark.question_files)
        raise DataError(
            f"{file.path} has {counted(len(entries), 'line')}, but {benchmark.settings.name} has "
            f"{counted(len(questions), 'question')}. "
            f"Its lines have no ids, so line N must be question N of {files}, also where only "
            "some questions are scored (leave a line blank where there is no SQL). To hand in a part, use CSV or "
            "JSON lines with a question_id."
        )
    lines = list(zip(questions, entries, strict=True))
    split_lines = [(question, _without_database(entry, question, benchmark)) for question, entry in lines]
    if all(entry.database_id for _, entry in split_lines if entry.sql or entry.database_id):
        return split_lines
    # not all lines end with a database: what follows a tab is part of the SQL, unless it is the question's database
    return [
        (question, entry) if entry.database_id == question.database_id else whole_line
        for (question, entry), whole_line in zip(split_lines, lines, strict=True)
    ]


def _without_database(entry: PredictionEntry, question: Question, benchmark: Benchmark) -> PredictionEntry:
    """Take the database from the end of a line, if what stands after its last tab is one."""
    sql, tab, name = (entry.sql or "").rpartition("\t")
    name = name.strip()
    if tab and (name == question.database_id or name in benchmark.schemas):
        return PredictionEntry(entry.location, None, sql.strip() or None, name)
    return entry


def _demand_database(
    file: PredictionFile, entry: PredictionEntry, question: Question, benchmark: Benchmark
) -> None:
    named = entry.database_id
    if named is not None and named.lower() != question.database_id.lower():
        raise DataError(
            f'{file.path}, {entry.location}: names the database "{named}", but question {question.id} of '
            f'{benchmark.settings.name} is about the database "{question.database_id}". '
            "The file belongs to another split or revision, or its order was changed."
        )


Wrapping = Literal["in a Markdown fence", "behind a database's name and |"]

_PIPED = re.compile(r"\A\s*+[\w.-]++\s*+\|\s*+(?=(?:select|with)\b)", re.IGNORECASE)


def wrapping(sql: str) -> Wrapping | None:
    """Return what stands around the SQL of a prediction; None where it stands alone.

    >>> wrapping("concert_singer | select count(*) from singer")
    "behind a database's name and |"
    """
    if sql.lstrip().startswith("```"):
        return "in a Markdown fence"
    return "behind a database's name and |" if _PIPED.match(sql) else None


def unwrapped(sql: str) -> str:
    r"""Return the SQL of a prediction without what stands around it; unchanged where it stands alone.

    >>> unwrapped("```sql\nSELECT 1\n```"), unwrapped("db | SELECT 2"), unwrapped("SELECT 3")
    ('SELECT 1', 'SELECT 2', 'SELECT 3')
    """
    kind = wrapping(sql)
    if kind is None:
        return sql
    if kind == "in a Markdown fence":
        return read_sql(sql) or sql
    return _PIPED.sub("", sql, count=1)


def about_wrapping(sqls: Iterable[str], why_unwrapped: str) -> tuple[str, ...]:
    """Return a remark for each kind of wrapped predictions; `why_unwrapped` is "" if they were not unwrapped."""
    kinds = [wrapping(sql) for sql in sqls]
    predicate = "is executed as it is written; --unwrap takes it out"
    if why_unwrapped:
        predicate = f"was taken out ({why_unwrapped})"
    return tuple(
        f"{kinds.count(kind):,} of {len(kinds):,} predictions stand {kind}: the SQL {predicate}."
        for kind in dict.fromkeys(kinds)
        if kind
    )


class LinkNames(NamedTuple):
    """What was linked for one question, as it was written: not yet matched against the schema."""

    tables: tuple[str, ...]
    columns: tuple[str, ...]


def read_links(path: Path, benchmark: Benchmark) -> Mapping[str, LinkNames]:
    """Read schema links by question id, from JSON lines or a JSON list of objects with "tables" and "columns".

    A column is written `table.column`. If no object has an id, object N is about question N of the whole benchmark, and
    there must be one object for each question.
    """
    is_list = read_text(path).lstrip().startswith("[")
    rows = list(json_rows(path) if is_list else json_line_rows(path))
    ids = [identity for row in rows if (identity := row.question_id) is not None]
    if len(ids) not in (0, len(rows)):
        raise DataError(
            f"{path}: {len(ids):,} of its {len(rows):,} objects have a question_id. Give it to all or none."
        )
    questions = [question.id for question in benchmark.questions]
    if not ids and len(rows) != len(questions):
        raise DataError(
            f"{path} has {counted(len(rows), 'object')}, but {benchmark.settings.name} has "
            f"{counted(len(questions), 'question')}. They "
            'have no ids, so object N must be about question N; or give each a "question_id".'
        )
    links: dict[str, LinkNames] = {}
    for identity, row in zip(ids or questions, rows, strict=True):
        if identity in links:
            raise DataError(
                f"{row.location}: question {identity} has a link already. Keep one for each question."
            )
        links[identity] = LinkNames(_names(row, "tables"), _names(row, "columns"))
    if unknown := sorted(links.keys() - set(questions)):
        raise DataError(f"{path}: {unknown[0]} is no question id of {benchmark.settings.name}.")
    return links


def _names(row: Row, key: str) -> tuple[str, ...]:
    value: Any = row.content.get(key)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        form = '"table.column" texts' if key == "columns" else "names"
        raise DataError(f'{row.location}: "{key}" must be a list of {form}.')
    return tuple(value)
