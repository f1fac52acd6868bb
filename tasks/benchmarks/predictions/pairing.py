"""Pairs predictions with the questions of a benchmark: by question id, by line only where a format has nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.formats import Entry, PredictionFile, sql_or_none
from tasks.errors import DataError
from tasks.records import Question


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions by question.

    Attributes:
        file: where they come from.
        sqls: SQL by question id; a question that the file leaves out, or has nothing for, is absent.
        notes: what a user should know about the pairing, in sentences.
    """

    file: PredictionFile
    sqls: Mapping[str, str]
    notes: tuple[str, ...] = ()


def pair(file: PredictionFile, benchmark: Benchmark) -> Predictions:
    """Pair a file of predictions with all questions of a benchmark.

    Lines are matched with positions in the whole question file, independent of which questions are scored. Ids that
    the benchmark does not have are left out, with a note.

    Raises:
        DataError: an id comes twice, none is known, a prediction names another database than its question,
            or the lines are not as many as the questions.
    """
    if file.format == "lines":
        return _by_line(file, benchmark)
    return _by_id(file, benchmark)


def _by_id(file: PredictionFile, benchmark: Benchmark) -> Predictions:
    questions = {question.id: question for question in benchmark.questions}
    places: dict[str, str] = {}
    sqls: dict[str, str] = {}
    unknown: list[str] = []
    for entry in file.entries:
        identity = entry.question_id or ""
        if identity in places:
            raise DataError(
                f"{file.path}, {entry.place}: question {identity} already has a prediction at "
                f"{places[identity]}. Keep one for each question."
            )
        places[identity] = entry.place
        if identity not in questions:
            unknown.append(identity)
            continue
        _demand_database(file, entry, questions[identity], benchmark)
        if entry.sql:
            sqls[identity] = entry.sql
    if unknown and len(unknown) == len(file.entries):
        raise DataError(
            f"{file.path}: none of its {len(unknown):,} ids is a question of {benchmark.settings.name}. They look "
            f'like "{unknown[0]}", the benchmark\'s like "{benchmark.questions[0].id}". '
            "Is it the file of another benchmark or split?"
        )
    return Predictions(file, sqls, tuple(_about_unknown(unknown, benchmark)))


def _by_line(file: PredictionFile, benchmark: Benchmark) -> Predictions:
    questions, entries = benchmark.questions, list(file.entries)
    while len(entries) > len(questions) and entries[-1].sql is None:
        entries.pop()  # blank lines at the end of the file
    if len(entries) != len(questions):
        raise DataError(
            f"{file.path} has {len(entries):,} lines, but {benchmark.settings.name} has {len(questions):,} questions. "
            f"Its lines have no ids, so line N must be question N of {benchmark.settings.questions}, also where only "
            "some questions are scored (leave a line blank where there is no SQL). To hand in a part, use CSV or "
            "JSON lines with a question_id."
        )
    split = [
        _without_database(entry, question, benchmark)
        for entry, question in zip(entries, questions, strict=True)
    ]
    if all(entry.database_id for entry in split if entry.sql or entry.database_id):
        for entry, question in zip(split, questions, strict=True):
            _demand_database(file, entry, question, benchmark)
        chosen: Sequence[Entry] = split
    else:  # a tab within a SQL, except where the question's own database follows it
        pairs = zip(split, entries, questions, strict=True)
        chosen = [one if one.database_id == q.database_id else whole for one, whole, q in pairs]
    sqls = {q.id: sql_or_none(entry.sql) for q, entry in zip(questions, chosen, strict=True)}
    return Predictions(file, {identity: sql for identity, sql in sqls.items() if sql})


def _without_database(entry: Entry, question: Question, benchmark: Benchmark) -> Entry:
    """Take the database from the end of a line, if what stands after its last tab is one."""
    sql, tab, name = (entry.sql or "").rpartition("\t")
    name = name.strip()
    if tab and (name == question.database_id or name in benchmark.schemas):
        return Entry(entry.place, None, sql.strip() or None, name)
    return entry


def _demand_database(file: PredictionFile, entry: Entry, question: Question, benchmark: Benchmark) -> None:
    named = entry.database_id
    if named is not None and named.lower() != question.database_id.lower():
        raise DataError(
            f'{file.path}, {entry.place}: names the database "{named}", but question {question.id} of '
            f'{benchmark.settings.name} is asked of "{question.database_id}". '
            "The file belongs to another split or revision, or its order was changed."
        )


def _about_unknown(unknown: Sequence[str], benchmark: Benchmark) -> Sequence[str]:
    if not unknown:
        return ()
    shown = ", ".join(unknown[:10]) + (f" and {len(unknown) - 10:,} more" if len(unknown) > 10 else "")
    return (
        f"{len(unknown):,} predictions are for no question of {benchmark.settings.name} and were left out: {shown}.",
    )
