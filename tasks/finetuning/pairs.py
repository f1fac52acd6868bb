"""Training pairs of the eliminator, and their separation from the evaluated and held-out questions."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tasks.benchmarks.fingerprint import question_fingerprint, sql_fingerprint
from tasks.core.errors import ConfigurationError, DataError, first_problem
from tasks.core.files import atomic_write
from tasks.core.records import Question
from tasks.core.wording import shorten
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


SHOWN = 5


def refuse_evaluated(training: Iterable[Question], evaluated: Iterable[Question], name: str) -> None:
    """Check that no question occurs in both splits for the same database.

    Raises:
        ConfigurationError: names the questions that are.
    """
    forbidden = {(one.database_id, question_fingerprint(one.text)) for one in evaluated}
    found = [one for one in training if (one.database_id, question_fingerprint(one.text)) in forbidden]
    if found:
        shown = shorten([f'{one.id} ("{one.text[:60]}")' for one in found], SHOWN)
        raise ConfigurationError(
            f"{len(found):,} of the training questions are in the evaluated split {name}: {shown}. An eliminator "
            "trained on them would know the answers. Name the training questions with --training, or with "
            '"--set benchmark.train=FILE".'
        )


def without_likeness(
    training: Iterable[Question],
    gold: Mapping[str, str],
    evaluated: Iterable[Question],
    evaluated_gold: Collection[str],
) -> tuple[Question, ...]:
    """Return the training questions whose text and whose gold do not occur in the evaluated split, in any database.

    `evaluated` is the whole evaluated split, `evaluated_gold` the `sql_fingerprint` of all of its gold.
    """
    evaluated_texts = {question_fingerprint(one.text) for one in evaluated}
    return tuple(
        one
        for one in training
        if question_fingerprint(one.text) not in evaluated_texts
        and sql_fingerprint(gold[one.id]) not in evaluated_gold
    )


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Pairs to train on and pairs to judge by."""

    training: tuple[TrainingPair, ...]
    held_out: tuple[TrainingPair, ...]


def hold_out(pairs: Sequence[TrainingPair], share: float) -> HeldOut:
    """Split pairs by question text, about `share` of 1 held out, so that no question is on both sides, in any database.

    Which side depends on the question's text alone, so a longer data set moves no question to the other side.
    """
    border = int(share * 2**32)
    sides: tuple[list[TrainingPair], list[TrainingPair]] = ([], [])
    for pair in pairs:
        sides[int(question_fingerprint(pair.question)[:8], 16) < border].append(pair)
    return HeldOut(tuple(sides[False]), tuple(sides[True]))


def refuse_trained(trained: Iterable[TrainingPair], judged: Iterable[TrainingPair]) -> None:
    """Check that an eliminator is judged by questions that it was not trained on.

    Raises:
        ConfigurationError: it was trained on some of them; the message names the first ones.
    """
    known = {question_fingerprint(pair.question) for pair in trained}
    found = [pair for pair in judged if question_fingerprint(pair.question) in known]
    if found:
        shown = shorten([pair.question_id for pair in found], SHOWN)
        raise ConfigurationError(
            f"{len(found):,} of the pairs to judge by ask what the eliminator was trained on (questions {shown}). "
            "Judge by the held-out pairs that `crosscheck finetune dataset --held-out` wrote."
        )
