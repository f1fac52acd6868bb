"""Training pairs of the eliminator: a prompt in the instruction / input / response layout, and what it was made of."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tasks.core.errors import DataError, first_problem
from tasks.core.files import atomic_write
from tasks.core.records import Question
from tasks.stages.sea_sql.elimination_prompt import EliminationPrompt


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """One example."""

    # instruction, input: the prompt, exactly as it is at inference
    instruction: str
    input: str
    response: str  # the SQL to answer with
    # question_id, question, database_id: where it is from
    question_id: str
    question: str
    database_id: str
    sql: str  # the preliminary SQL that the input shows
    gold: str  # the gold SQL
    right: bool  # whether the preliminary SQL is right, so that the response repeats it
    benchmark: str = ""  # the training split that it is from

    @property
    def prompt(self) -> EliminationPrompt:
        """The prompt of this pair."""
        return EliminationPrompt(self.instruction, self.input)


_PAIR = TypeAdapter(TrainingPair)


def make_pair(
    question: Question, prompt: EliminationPrompt, sql: str, gold: str, *, right: bool, benchmark: str = ""
) -> TrainingPair:
    """Return the pair of a question: the response is the preliminary SQL if it is right, else the gold SQL."""
    return TrainingPair(
        instruction=prompt.instruction,
        input=prompt.input,
        response=sql if right else gold.strip().rstrip(";").rstrip(),
        question_id=question.id,
        question=question.text,
        database_id=question.database_id,
        sql=sql,
        gold=gold,
        right=right,
        benchmark=benchmark,
    )


def deduplicated(pairs: Iterable[TrainingPair]) -> tuple[TrainingPair, ...]:
    """Return the pairs without those whose prompt has come before; how many are right and wrong is left as it is."""
    unique: dict[tuple[str, str], TrainingPair] = {}
    for pair in pairs:
        unique.setdefault((pair.instruction, pair.input), pair)
    return tuple(unique.values())


def write_pairs(path: Path, pairs: Iterable[TrainingPair]) -> None:
    """Write pairs as JSON lines, the file whole or not at all."""
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs)


def read_pairs(path: Path) -> tuple[TrainingPair, ...]:
    """Read pairs from JSON lines.

    Raises:
        DataError: the file is absent, a line is no pair, or there is none.
    """
    try:
        # not `splitlines`: a text may hold what else it counts as an end of line
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The training pairs {path} cannot be read ({error}). `crosscheck finetune dataset` writes them."
        ) from None
    pairs = [_read_line(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not pairs:
        raise DataError(f"{path} holds no training pair.")
    return tuple(pairs)


def digest_of(pairs: Sequence[TrainingPair]) -> str:
    """Return the sha256 of what pairs teach: their prompts and responses, in order."""
    taught = [[pair.instruction, pair.input, pair.response] for pair in pairs]
    return hashlib.sha256(json.dumps(taught, ensure_ascii=False).encode()).hexdigest()


def _read_line(path: Path, number: int, line: str) -> TrainingPair:
    try:
        return _PAIR.validate_json(line)
    except ValidationError as error:
        raise DataError(
            f"{path}, line {number}: no training pair ({first_problem(error)}). "
            "Write the file again with `crosscheck finetune dataset`."
        ) from None
