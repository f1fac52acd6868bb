"""The answer keys that `benchmark.answer_keys` names: other golds for a benchmark's questions.

A key is the golds of a benchmark, a file of ids and SQL, perhaps with the questions' texts, as BIRD's files are, or a
file of corrections, which changes single golds:

    {"corrections": [
      {"question_id": "717", "action": "replace", "sql": "SELECT ...", "reason": "...", "source": "..."},
      {"question_id": "720", "action": "add", "sql": ["SELECT ...", "SELECT ..."], "reason": "...", "source": "..."},
      {"question_id": "723", "action": "withdraw", "reason": "...", "source": "..."}]}

"replace": the results of these SQLs are right, that of the gold no longer; "add": those of the gold and of these are;
"withdraw": the question is not counted. With "question" or "evidence" the key has another text for the question. Other
questions keep their gold.

A benchmark and a file of ids and SQL answer the questions that they have. To the others they have no answer.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from tasks.benchmarks.descriptions import one_line
from tasks.benchmarks.expected_files import demand_questions, notes_on_revision
from tasks.benchmarks.layouts import SearchPaths, Split, layout_of
from tasks.benchmarks.rows import DATABASE_NAMES, files_digest, read_json, read_objects
from tasks.core.errors import ConfigurationError, DataError, did_you_mean, similar_name
from tasks.core.records import Question
from tasks.core.wording import and_more, counted, shorten, storable
from tasks.settings.base import Settings
from tasks.settings.benchmark import BenchmarkSettings, QuestionId, key_name, key_reference
from tasks.settings.load import available, load_benchmark_settings
from tasks.sql.same_query import query_key

Action = Literal["replace", "add", "withdraw"]
MAX_PROBLEMS = 30

_Text = Annotated[str, BeforeValidator(lambda text: storable(text) if isinstance(text, str) else text)]
_Texts = Annotated[
    tuple[_Text, ...],
    Field(strict=False),
    BeforeValidator(lambda sql: [sql] if isinstance(sql, str) else sql),
]


class KeyEntry(Settings):
    """What a key changes of one question."""

    question_id: QuestionId
    """The question."""
    action: Action
    """What is done to its gold."""
    sql: _Texts = ()
    """SQL whose results are right, in the dialect of the databases."""
    reason: _Text = ""
    """What is wrong with the gold."""
    source: _Text = ""
    """Who says so: a person, a paper, an issue."""
    question: _Text | None = None
    """Text of the question under this key; null: that of the benchmark."""
    evidence: _Text | None = None
    """Evidence of the question under this key; null: that of the benchmark."""

    def has_text_of(self, question: Question) -> bool:
        """Return whether a model that saw this question saw the text of the key, blanks aside."""
        pairs = ((self.question, question.text), (self.evidence, question.evidence))
        return all(text is None or one_line(text) == one_line(seen) for text, seen in pairs)


@dataclass(frozen=True)
class Official:
    """The benchmark's own questions and golds, with which a key is compared."""

    name: str  # the benchmark's name
    questions: Mapping[str, Question]  # by id
    # gold SQL by question id, as the files have it; several where each is right. Absent without gold SQL.
    golds: Mapping[str, tuple[str, ...]] = field(repr=False)
    dialect: str = ""  # of its SQL; "" is standard SQL


@dataclass(frozen=True)
class AnswerKey:
    """One answer key."""

    name: str  # its name in `scores`, in MLflow and in the warehouse
    file: Path  # the file that it was read from; of several, the first
    sha256: str  # its checksum; of several files, that of their checksums
    # by question id, in file order: the questions of which it changes something
    entries: Mapping[str, KeyEntry] = field(repr=False)
    # ids of questions to which it has no answer. A file of corrections has none: it keeps the other golds.
    absent: frozenset[str] = field(default=frozenset(), repr=False)
    # everything that is wrong with it, in sentences; entries that are named there are left out
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what a user should know about its file, in sentences

    def demand_valid(self, further: Collection[str] = ()) -> None:
        """Raise one error that lists the key's problems and `further` ones; return if there are none at all."""
        problems = [*self.problems, *further]
        if not problems:
            return
        lines = [*problems[:MAX_PROBLEMS], and_more(problems, MAX_PROBLEMS)]
        raise DataError(
            f"The answer key {self.name} ({self.file}) cannot be used, {counted(len(problems), 'problem')}:\n"
            + "\n".join(f"  {line}" for line in lines if line)
            + '\n"crosscheck benchmarks verify --key KEY" checks it; without benchmark.answer_keys there is only the '
            "official score."
        )


def same_sql(first: Sequence[str], second: Sequence[str], dialect: str) -> bool:
    """Return whether two lists of SQL are the same queries, in the same order."""
    return [query_key(sql, dialect) for sql in first] == [query_key(sql, dialect) for sql in second]


TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
KEYS_OF_CORRECTIONS = ("corrections", "description")
"""Keys beside the list of corrections that a file may have."""
SQL_NAMES = ("corrected_sql", "gold_sql", "sql", "query")
REASON_NAMES = ("reason", "correction", "comment")
"""What the columns of a key may be called, in plain names; of several the first counts."""


def read_keys(
    settings: BenchmarkSettings, split: Split, places: SearchPaths, dialect: str
) -> tuple[AnswerKey, ...]:
    """Read the keys that a benchmark's settings name, in their order.

    `split` holds the questions and golds that the keys change, `dialect` is that of the benchmark's databases.
    """
    official = Official(
        name=settings.name,
        questions={question.id: question for question in split.questions},
        golds={identity: _all_golds(split, identity) for identity in split.gold},
        dialect=dialect,
    )
    return tuple(read_key(item, official, settings, places) for item in settings.answer_keys)


def _all_golds(split: Split, question_id: str) -> tuple[str, ...]:
    return (split.gold[question_id], *split.further_gold.get(question_id, ()))


def read_key(item: str, official: Official, settings: BenchmarkSettings, places: SearchPaths) -> AnswerKey:
    """Read one item of `benchmark.answer_keys`: a file or another benchmark, perhaps with `name=` before it.

    Unusable content raises no error here: the key's `problems` describe it.
    """
    name = key_name(item)
    reference = key_reference(item)
    if Path(reference).suffix.lower() in (*TABLE_SUFFIXES, ".json"):
        return read_key_file(name, Path(reference).expanduser(), official)
    return _read_benchmark(name, reference, official, settings, places)


def read_key_file(name: str, file: Path, official: Official) -> AnswerKey:
    """Read a JSON file with an object of corrections, or a JSON, JSON lines or CSV file of ids and SQL."""
    if file.suffix.lower() != ".json":
        return _read_golds(name, file, official)
    content = read_json(file)
    if isinstance(content, dict) and isinstance(content.get("corrections"), list):
        return _read_corrections(name, file, content, official)
    if isinstance(content, list) and content:
        return _read_golds(name, file, official)
    raise DataError(
        f'{file} is no answer key. It must hold an object with the key "corrections", a list of objects; or a list of '
        "objects with question_id and SQL, as BIRD's files do. JSON lines and CSV with these columns are read, too."
    )


def _read_benchmark(
    name: str, reference: str, official: Official, settings: BenchmarkSettings, places: SearchPaths
) -> AnswerKey:
    """Return another benchmark's questions and golds as a key; `reference` is its name or its YAML file."""
    try:
        other = load_benchmark_settings(places.conf, reference)
    except ConfigurationError as error:
        if reference in available(places.conf, "benchmark") or reference.endswith((".yaml", ".yml")):
            raise  # the reference names a benchmark, so the error is about its settings
        raise ConfigurationError(
            f"benchmark.answer_keys: {error} A key is one of these benchmarks, or a file that ends in "
            ".json, .jsonl, .csv or .tsv."
        ) from None
    if other.has_dialects:  # it has a file of golds per dialect: take that of the benchmark, if it states one
        other = other.model_copy(update={"dialect": settings.dialect or other.dialect})
    if official.dialect and other.dialect and other.dialect != official.dialect:
        raise ConfigurationError(
            f"benchmark.answer_keys: the key {name} is written in {other.dialect}, the databases of {settings.name} "
            f"are {official.dialect}. Name a key in that dialect."
        )
    layout = layout_of(other.layout)
    folder = layout.folder(other, places)
    files = demand_questions(other, folder)
    split = layout.load(other, folder, files)
    reasons = dict(_reasons(files))
    answers = {
        question.id: KeyAnswer(
            sqls=_all_golds(split, question.id),
            database_id=question.database_id,
            question=question.text,
            evidence=question.evidence,
            reason=reasons.get(question.id, ""),
        )
        for question in split.questions
        if question.id in split.gold
    }
    key = _key_of_answers(name, files, answers, official, further_allowed=True)
    return replace(key, notes=tuple(notes_on_revision(other, folder)))


def _read_corrections(name: str, file: Path, content: Mapping[str, Any], official: Official) -> AnswerKey:
    """Read the content of a file of corrections; the key's `problems` say what is wrong with it."""
    corrections: Sequence[Any] = content["corrections"]
    entries: dict[str, KeyEntry] = {}
    problems = [
        f'there is no key "{key}" beside "corrections"' for key in content if key not in KEYS_OF_CORRECTIONS
    ]
    for position, item in enumerate(corrections):
        where = f"item {position} (from 0)"
        if isinstance(item, dict) and "question_id" in item:
            where += f", question {item['question_id']}"
        try:
            entry = KeyEntry.model_validate(item)
        except ValidationError as error:
            problems += [f"{where}: {problem}" for problem in _validation_problems(error, item)]
            continue
        entry_problems = [f"{where}: {problem}" for problem in _entry_problems(entry, official)]
        if entry.question_id in entries:
            entry_problems.append(
                f"{where}: the question has a correction above; put all of its SQL into one"
            )
        problems += entry_problems
        if not entry_problems:
            entries[entry.question_id] = entry
    return AnswerKey(name, file, files_digest([file]), entries, problems=tuple(problems))


def _validation_problems(error: ValidationError, item: Any) -> Iterator[str]:
    """Yield each problem that pydantic found in an item of the corrections, in words."""
    for problem in error.errors(include_url=False):
        key = str(problem["loc"][0]) if problem["loc"] else ""  # "": the problem is the item as a whole
        if problem["type"] == "extra_forbidden":
            yield f'there is no key "{key}". {did_you_mean(key, KeyEntry.model_fields)}'
        elif problem["type"] == "missing":
            yield f'the key "{key}" is missing'
        elif not key:
            yield f"must be an object, not {type(item).__name__}"
        else:
            yield f'"{key}": {problem["msg"]}, not {problem["input"]!r}'


def _similar_id(identity: str, official: Official) -> str:
    """Return the sentence `Did you mean "ID"?` with a full stop before it; "" where no question has a similar id."""
    hint = similar_name(identity, official.questions)
    return f". {hint}" if hint else ""


def _entry_problems(entry: KeyEntry, official: Official) -> Iterator[str]:
    """Yield what is wrong with one correction of the benchmark's questions."""
    if entry.question_id not in official.questions:
        yield f"the benchmark has no such question{_similar_id(entry.question_id, official)}"
    if any(not sql.strip() for sql in entry.sql):
        yield '"sql" is empty'
    if entry.action in ("replace", "add") and not entry.sql:
        yield f'"{entry.action}" needs the key "sql"'
    if entry.action == "withdraw" and entry.sql:
        yield 'a question that is withdrawn has no "sql"'
    for name in ("reason", "source"):
        if not getattr(entry, name).strip():
            yield f'the key "{name}" is missing: say why, and who says so'


@dataclass
class KeyAnswer:
    """What a key says of one question."""

    sqls: tuple[str, ...]
    database_id: str = ""  # "" where the file does not say
    question: str | None = None
    evidence: str | None = None
    reason: str = ""


def _read_golds(name: str, file: Path, official: Official) -> AnswerKey:
    """Read a JSON list, JSON lines or CSV of objects with an id and a SQL; several rows of one id are several SQLs."""
    answers: dict[str, KeyAnswer] = {}
    for row in read_objects(file):
        if (identity := row.question_id) is None:
            raise DataError(
                f'{row.location}: the key "question_id" is missing. Add it, or take the item out.'
            )
        if row.content.get("action"):
            raise DataError(
                f'{row.location}: corrections with an "action" stand in an object: {{"corrections": [...]}}.'
            )
        answer = KeyAnswer(
            sqls=row.texts(SQL_NAMES),
            database_id=str(row.first(DATABASE_NAMES) or ""),
            question=row.optional_text("question"),
            evidence=row.optional_text("evidence"),
            reason=str(row.first(REASON_NAMES) or ""),
        )
        # a further row of the same question only adds its SQL to the first row's answer
        first = answers.setdefault(identity, answer)
        first.sqls = tuple(dict.fromkeys((*first.sqls, *answer.sqls)))
    return _key_of_answers(name, [file], answers, official, further_allowed=False)


def _reasons(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for row in chain.from_iterable(read_objects(file) for file in files if file.suffix == ".json"):
        if (reason := row.first(REASON_NAMES)) and row.question_id:
            yield row.question_id, str(reason)


def _key_of_answers(
    name: str,
    files: Sequence[Path],
    answers: Mapping[str, KeyAnswer],
    official: Official,
    *,
    further_allowed: bool,
) -> AnswerKey:
    """Return a key with an entry for each question whose gold or text is not the official one."""
    entries: dict[str, KeyEntry] = {}
    absent = set()
    of_other_database = []
    for identity, question in official.questions.items():
        # where a question occurs twice, the second has the id of the first and "-2", and the same answer
        answer = answers.get(identity) or answers.get(identity.removesuffix("-2"))
        if answer is None:
            absent.add(identity)
        elif answer.database_id and answer.database_id.lower() != question.database_id.lower():
            of_other_database.append(f"question {identity} ({answer.database_id} for {question.database_id})")
        else:
            entry = KeyEntry(
                question_id=identity,
                action="replace",
                sql=answer.sqls,
                reason=answer.reason or f"differs in {files[0].name}",
                source=files[0].name,
                question=answer.question,
                evidence=answer.evidence,
            )
            same_gold = same_sql(answer.sqls, official.golds.get(identity, ()), official.dialect)
            if not same_gold or not entry.has_text_of(question):
                entries[identity] = entry
    unknown = [identity for identity in answers if identity not in official.questions]
    problems = tuple(_answer_problems(unknown, of_other_database, answers, official, further_allowed))
    return AnswerKey(name, files[0], files_digest(files), entries, frozenset(absent), problems)


def _answer_problems(
    unknown: Sequence[str],
    of_other_database: Sequence[str],
    answers: Mapping[str, KeyAnswer],
    official: Official,
    further_allowed: bool,
) -> Iterator[str]:
    """Yield the signs that the answers are not to this benchmark's questions: `unknown` are ids that it lacks."""
    if not answers:
        yield "it has no answer"
    elif len(unknown) == len(answers):
        example = next(iter(official.questions), "")
        yield (
            f"none of its ids is a question of {official.name}. They look like "
            f'"{unknown[0]}", the benchmark\'s like "{example}". It is the key of another benchmark'
        )
    elif unknown and not further_allowed:
        noun = "question" if len(unknown) == 1 else "questions"
        yield f"{official.name} has no such {noun}: {shorten(unknown, 10)}{_similar_id(unknown[0], official)}"
    if of_other_database:
        yield (
            f"it names another database than the benchmark for {counted(len(of_other_database), 'question')}: "
            f"{shorten(of_other_database, 5)}. It is the key of another benchmark or revision"
        )
