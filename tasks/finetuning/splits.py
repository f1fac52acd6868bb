"""Separation of training and evaluation: checks for questions of the evaluated split, held-out pairs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tasks.benchmarks.fingerprint import question_fingerprint, sql_fingerprint
from tasks.core.errors import ConfigurationError
from tasks.core.records import Question
from tasks.core.wording import shorten
from tasks.finetuning.pairs import TrainingPair

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
