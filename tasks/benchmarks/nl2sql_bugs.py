"""NL2SQL-BUGs: answers to questions of BIRD that experts labelled as right or wrong, with the kinds of error.

Liu et al., arXiv 2503.11984; github.com/HKUSTDial/NL2SQL-Bugs-Benchmark. Its databases are BIRD's.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ValidationError

from tasks.benchmarks.files.readers import Row, files_digest, json_rows
from tasks.core.errors import ConfigurationError, DataError, first_problem

NAME = "nl2sql-bugs"
"""Name of the data set, and of its folder below the data folder."""
BENCHMARK = "bird-dev"
"""Benchmark whose questions, golds and databases are those of its answers."""
SOURCE = "github.com/HKUSTDial/NL2SQL-Bugs-Benchmark"


class _Kind(BaseModel):
    error_type: str
    sub_error_type: str = ""


class LabelledAnswer(BaseModel):
    """One answer with its label."""

    id: Annotated[str, BeforeValidator(str)]
    question: str
    evidence: str = ""
    db_id: str
    sql: str
    label: bool
    """Whether it is right."""
    error_types: tuple[_Kind, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of error: the main ones, and each with its subordinate one."""
        main = dict.fromkeys(each.error_type for each in self.error_types)
        both = (
            f"{each.error_type}: {each.sub_error_type}" for each in self.error_types if each.sub_error_type
        )
        return tuple(dict.fromkeys((*main, *both)))


@dataclass(frozen=True)
class LabelledAnswers:
    """The answers as read."""

    answers: tuple[LabelledAnswer, ...]
    digest: str  # sha256 of the files


def read_answers(data: Path) -> LabelledAnswers:
    """Read every JSON file of the data set's folder; an answer that is in two files is read once.

    Raises:
        ConfigurationError: there is none.
        DataError: a file is malformed.
    """
    folder = data / NAME
    files = tuple(sorted(folder.glob("*.json")))
    if not files:
        raise ConfigurationError(
            f"--measure {NAME}: there is no JSON file in {folder}. Put the data of {SOURCE} there, or name the folder "
            "above it with --data."
        )
    found: dict[str, LabelledAnswer] = {}
    for row in (row for file in files for row in json_rows(file)):
        answer = _answer(row)
        if found.setdefault(answer.id, answer) != answer:
            raise DataError(f'{row.place}: another answer has the id "{answer.id}". Take one of them out.')
    if not found:
        raise DataError(f"{files[0]} holds no answer.")
    return LabelledAnswers(tuple(found.values()), files_digest(files))


def _answer(row: Row) -> LabelledAnswer:
    try:
        return LabelledAnswer.model_validate(row.content)
    except ValidationError as error:
        raise DataError(f"{row.place}: this is no answer of {NAME} ({first_problem(error)}).") from None
