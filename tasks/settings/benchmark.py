"""Settings of a benchmark: where its files are and how it is scored."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tasks.settings.base import Settings

Rule = Literal["bird", "spider", "strict", "subset"]

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
    """Folder of its files, below the data location (`--data`, CROSSCHECK_DATA) unless absolute."""
    questions: str = "dev.json"
    """Questions of the evaluated split, with their gold SQL."""
    tables: str = "dev_tables.json"
    """Schemas of its databases; adds foreign keys that the databases do not declare. "": there is none."""
    databases: str = "dev_databases"
    """Folder with one folder per database."""
    train: str | None = None
    """Training questions with gold SQL (JSON or Parquet): the demonstrations. None: there are none."""
    train_gold: str | None = None
    """All gold SQL of the training split in Spider's form (SQL, tab, database), where `train` lacks some of it."""
    column_descriptions: str | None = None
    """JSON of generated column descriptions with keys `database|table|column`."""
    revision: str
    """Which revision of the benchmark this is; stated with every score."""
    rule: Rule
    """The rule of the headline execution accuracy."""
    soft_f1: bool = False
    """Whether to score soft-F1 (BIRD mini-dev) as well; it executes every query once more."""
    metrics: tuple[str, ...] = Field((), strict=False)
    """Further metrics: `path/to/file.py:name`, or the name of a registered one that executes every query once more."""
    source: str = ""
    """Where a user gets the files, for the message when they are missing."""
    timeout_s: float = Field(30.0, gt=0)
    """Seconds after which a query is stopped."""
    quarantine: tuple[QuestionId, ...] = Field((), strict=False)
    """Ids of questions whose gold is known to be wrong; scored with and without."""
