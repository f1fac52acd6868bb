"""Answer keys that list the answers themselves: id and SQL, perhaps with the question's text, as BIRD's files do.

Such a key answers the questions that it has. To the others of a benchmark it has no answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.benchmarks.files.pairs import DATABASE_NAMES, ID_NAMES, read_objects
from tasks.benchmarks.files.readers import Row, files_digest
from tasks.benchmarks.keys.key import AnswerKey, Entry, Official, same_sql
from tasks.benchmarks.layouts.base import Split
from tasks.core.errors import DataError, did_you_mean
from tasks.core.wording import counted, shorten

SQL_NAMES = ("corrected_sql", "gold_sql", "sql", "query")
REASON_NAMES = ("reason", "correction", "comment")
"""What the columns of a key may be called, in plain names; of several the first counts."""


@dataclass
class Answer:
    """What a key says of one question."""

    sqls: tuple[str, ...]
    database_id: str = ""  # "" where the file does not say
    question: str | None = None
    evidence: str | None = None
    reason: str = ""


def read_file(name: str, file: Path, official: Official) -> AnswerKey:
    """Read a JSON list, JSON lines or CSV of objects with an id and a SQL; several rows of one id are several SQLs.

    Raises:
        DataError: the file cannot be read, or a row has no id or no SQL.
    """
    answers: dict[str, Answer] = {}
    for row in read_objects(file):
        identity = next((str(row.content[key]) for key in ID_NAMES if row.content.get(key) is not None), "")
        if not identity:
            raise DataError(f'{row.place}: the key "question_id" is missing. Add it, or take the item out.')
        if row.content.get("action"):
            raise DataError(
                f'{row.place}: corrections with an "action" stand in an object: {{"corrections": [...]}}.'
            )
        found = _answer(row)
        if identity in answers:
            known = answers[identity]
            known.sqls = tuple(dict.fromkeys((*known.sqls, *found.sqls)))
        else:
            answers[identity] = found
    return _key(name, [file], answers, official, unknown_allowed=False)


def read_split(name: str, files: Sequence[Path], split: Split, official: Official) -> AnswerKey:
    """Return the key that a benchmark's questions and golds are. It may have more questions than the benchmark."""
    reasons = dict(_reasons(files))
    answers = {
        question.id: Answer(
            (split.gold[question.id], *split.further_gold.get(question.id, ())),
            question.database_id,
            question.text,
            question.evidence,
            reasons.get(question.id, ""),
        )
        for question in split.questions
        if question.id in split.gold
    }
    return _key(name, files, answers, official, unknown_allowed=True)


def _answer(row: Row) -> Answer:
    return Answer(
        row.texts(SQL_NAMES),
        next((str(row.content[key]) for key in DATABASE_NAMES if row.content.get(key)), ""),
        row.optional_text("question"),
        row.optional_text("evidence"),
        next((str(row.content[key]) for key in REASON_NAMES if row.content.get(key)), ""),
    )


def _reasons(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for row in (row for file in files if file.suffix == ".json" for row in read_objects(file)):
        reason = next((str(row.content[key]) for key in REASON_NAMES if row.content.get(key)), "")
        if reason and row.content.get("question_id") is not None:
            yield str(row.content["question_id"]), reason


def _key(
    name: str,
    files: Sequence[Path],
    answers: Mapping[str, Answer],
    official: Official,
    *,
    unknown_allowed: bool,
) -> AnswerKey:
    entries: dict[str, Entry] = {}
    absent, elsewhere = set(), []
    for identity, question in official.questions.items():
        # of a question that is repeated word for word, the key has the first
        answer = answers.get(identity) or answers.get(identity.removesuffix("-2"))
        if answer is None:
            absent.add(identity)
        elif answer.database_id and answer.database_id.lower() != question.database_id.lower():
            elsewhere.append(f"question {identity} ({answer.database_id} for {question.database_id})")
        else:
            entry = Entry(
                question_id=identity,
                action="replace",
                sql=answer.sqls,
                reason=answer.reason or f"differs in {files[0].name}",
                source=files[0].name,
                question=answer.question,
                evidence=answer.evidence,
            )
            if not (same_sql(answer.sqls, official.golds.get(identity, ())) and entry.has_text_of(question)):
                entries[identity] = entry
    unknown = [identity for identity in answers if identity not in official.questions]
    problems = list(_about(unknown, elsewhere, answers, official, unknown_allowed))
    return AnswerKey(name, files[0], files_digest(files), entries, frozenset(absent), tuple(problems))


def _about(
    unknown: Sequence[str],
    elsewhere: Sequence[str],
    answers: Mapping[str, Answer],
    official: Official,
    unknown_allowed: bool,
) -> Iterator[str]:
    if not answers:
        yield "it has no answer"
    elif len(unknown) == len(answers):
        like = next(iter(official.questions), "")
        yield (
            f"none of its {len(answers):,} ids is a question of {official.name}. They look like "
            f'"{unknown[0]}", the benchmark\'s like "{like}". It is the key of another benchmark'
        )
    elif unknown and not unknown_allowed:
        near = did_you_mean(unknown[0], official.questions)
        yield (
            f"{official.name} has no such {'question' if len(unknown) == 1 else 'questions'}: {shorten(unknown, 10)}"
            + (f". {near}" if near.startswith("Did") else "")
        )
    if elsewhere:
        yield (
            f"it names another database than the benchmark for {counted(len(elsewhere), 'question')}: "
            f"{shorten(elsewhere, 5)}. It is the key of another benchmark or revision"
        )
