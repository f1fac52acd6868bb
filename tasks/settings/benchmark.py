"""Settings of a benchmark: where its files are and how it is scored."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, field_validator

from tasks.settings.base import Settings

Rule = Literal["bird", "spider", "strict", "subset"]

FileNames = str | Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
"""One name, or several."""

OFFICIAL = "official"
"""Name of the benchmark's own answer key."""

DECIDED = "decided"
"""Name of the score without golds that the data do not decide."""

_NAMED_KEY = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KEY_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".yaml", ".yml")

QuestionId = Annotated[str, BeforeValidator(lambda id: str(id) if type(id) is int else id)]
"""A question's id as text; YAML reads most ids as numbers."""


class BenchmarkSettings(Settings):
    """One split of one benchmark."""

    name: str
    """Name on the command line and in MLflow."""
    description: str = ""
    """One line for `crosscheck list`."""
    layout: str
    """How its files are laid out: "bird", "spider", or `path/to/file.py:class` of your own. "demo" is built on first
    use and then read as "bird"."""
    folder: str = "."
    """Folder of its files, below the data location (`--data`, CROSSCHECK_DATA) unless absolute; one that begins with
    `./` is below the folder of the YAML file."""
    questions: FileNames = "dev.json"
    """Questions of the evaluated split, with their gold SQL: a file, or a list of files and patterns (`*.json`), read
    one after the other. `{dialect}` in a name stands for the dialect."""
    tables: str = "dev_tables.json"
    """Schemas of its databases; adds foreign keys that the databases do not declare. "": there is none."""
    databases: FileNames = "dev_databases"
    """Folder with one folder per database, or a list of such folders, of which the first that has a database counts."""
    dialect: str = ""
    """Dialect of the gold SQL: an engine's name. "": that of the databases, which then are files."""
    transpile_gold: bool = False
    """Whether sqlglot translates gold SQL of another dialect than the databases'; never ranked then."""
    transpile_predictions: str = ""
    """Dialect from which sqlglot translates every answer before it is scored; stages execute what the model wrote.
    "": answers are scored as they are."""
    url: str = ""
    """URL of the databases instead, with `{database}` for the id of one: `postgresql://reader@host/{database}`. Without
    a password: that is read from PGPASSWORD or MYSQL_PWD, because settings are recorded. "": they are files."""
    database_version: str = ""
    """Your name of the data on the server, part of the cache keys; "": they follow from schema and row counts, which
    miss an UPDATE."""
    allow_writable_role: bool = False
    """Whether SQL may run under a role that may write. Then only the read-only transaction protects the data."""
    train: FileNames | None = None
    """Training questions and gold SQL, the demonstrations: a file (JSON, Parquet) or several; None: there are none."""
    demonstrations: bool = True
    """Whether prompts may show training questions; false where there are none: every pipeline then shows none."""
    train_gold: str | None = None
    """All gold SQL of the training split in Spider's form (SQL, tab, database), where `train` lacks some of it."""
    column_descriptions: str | None = None
    """JSON of generated column descriptions with keys `database|table|column`."""
    revision: str
    """Which revision of the benchmark this is; stated with every score."""
    rule: Rule
    """The rule of the headline execution accuracy."""
    test_suite: bool = True
    """Whether all databases of a Spider folder must agree, where it has several; else the first one alone decides."""
    soft_f1: bool = False
    """Whether to score soft-F1 (BIRD mini-dev) as well; it executes every query once more."""
    efficiency: bool = False
    """Whether to time right answers against their gold (VES, R-VES, ves_steps) when all questions are answered."""
    metrics: tuple[str, ...] = Field((), strict=False)
    """Further metrics: `path/to/file.py:name`, or the name of a registered one that executes every query once more."""
    source: str = ""
    """Where a user gets the files, for the message when they are missing."""
    download: str = ""
    """What to download, how large it is and where each file belongs, for the same message."""
    licence: str = ""
    """Licence of the files."""
    sha256: Mapping[str, str] = Field(default_factory=dict)
    """Checksums of files of this revision; a file that differs is noted."""
    database_sha256: Mapping[str, str] = Field(default_factory=dict)
    """Published checksums of database files, by database; a file that differs is reported."""
    timeout_s: float = Field(30.0, gt=0, le=86_400)
    """Seconds after which a query is stopped."""
    answer_keys: Annotated[
        tuple[str, ...], BeforeValidator(lambda keys: [keys] if isinstance(keys, str) else keys)
    ] = Field((), strict=False)
    """Answer keys beside the official one: each gives a further score of the same answers. A file of corrections, of id
    and SQL (JSON, JSON lines, CSV) or in BIRD's form; or the name of a benchmark whose golds are the key. `name=file`
    gives a file another name than its own. A relative path is relative to the YAML file, with `--set` to the working
    directory."""
    find_undecided: bool = False
    """Whether to look for golds whose result the data do not decide, and to score without them as well. A gold that can
    have such a result is executed up to a dozen times, once for the same database."""
    quarantine: tuple[QuestionId, ...] = Field((), strict=False)
    """Ids of questions whose gold is known to be wrong; scored with and without."""

    @field_validator("answer_keys")
    @classmethod
    def _distinct(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        check_key_names(keys)
        return keys

    @property
    def has_dialects(self) -> bool:
        """Whether there is a file of questions per dialect."""
        return any("{dialect}" in name for name in _several(self.questions))

    @property
    def question_files(self) -> tuple[str, ...]:
        """Names and patterns of the question files, with the dialect in its place."""
        return tuple(name.replace("{dialect}", self.dialect) for name in _several(self.questions))

    @property
    def train_files(self) -> tuple[str, ...]:
        """Names of the files of training questions."""
        return _several(self.train or ())

    @property
    def database_folders(self) -> tuple[str, ...]:
        """Names of the folders of databases."""
        return _several(self.databases)


def _several(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def key_name(item: str) -> str:
    """Return the name of an answer key, a set of corrected golds: the given one, else that of its file or benchmark.

    >>> key_name("/data/corrections.json"), key_name("mine=/data/corrections.json"), key_name("arcwise")
    ('corrections', 'mine', 'arcwise')
    """
    match = _NAMED_KEY.fullmatch(item)
    if match:
        return match[1]
    return Path(item).stem if item.lower().endswith(_KEY_ENDINGS) else item


def key_reference(item: str) -> str:
    """Return the file or the benchmark of a key of `benchmark.answer_keys`."""
    match = _NAMED_KEY.fullmatch(item)
    return match[2] if match else item


def key_in_folder(item: str, folder: Path) -> str:
    """Return a key of `benchmark.answer_keys` with the absolute path of its file; the name of a benchmark as it is."""
    reference = key_reference(item)
    if not reference.lower().endswith(_KEY_ENDINGS):
        return item
    path = str((folder / Path(reference).expanduser()).resolve())
    return f"{key_name(item)}={path}" if reference != item else path


def check_key_names(items: tuple[str, ...]) -> None:
    """Check that the name of each answer key, which names the key's score, is no other score's; ValueError if it is."""
    rules = get_args(Rule)
    other_scores = (*rules, OFFICIAL, "without_quarantine", DECIDED)
    rule_endings = tuple(f"_{rule}" for rule in rules)  # of the names of a key's scores by a further rule
    names = [key_name(item) for item in items]
    for name in names:
        if not _KEY_NAME.fullmatch(name):
            raise ValueError(
                f'"{name}" cannot be the name of a key: use letters, digits, "_", "-" and ".", NAME=FILE'
            )
        if names.count(name) > 1:
            raise ValueError(f'two keys have the name "{name}": give one of them another, NAME=FILE')
        if name in other_scores or name.endswith(rule_endings):
            raise ValueError(f'"{name}" cannot be the name of a key, another score has it: write NAME=FILE')
