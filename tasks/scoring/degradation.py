"""Stages that were not fully effective: unreadable replies, fallbacks, failures and skipped stages.

A question whose stage fell back still has an answer, and the score counts it. So the score may be that of a simpler
pipeline than the one that it is published for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.outcome import FAILED_ATTEMPT, Outcome, StageRecord
from tasks.core.wording import counted, shorten

MAX_MODELS = 3


@dataclass(frozen=True, slots=True)
class DegradedStage:
    """A stage that was not fully effective."""

    stage: str
    questions: int  # questions in which it ran or was skipped
    affected: int  # those of them with an unreadable reply, a fallback or a failure
    replies: int  # replies that it needed; a repeated request counts once
    unreadable: int  # those of them that could not be read
    fallbacks: int  # questions in which it fell back or failed with readable replies
    skipped: int  # questions in which it did not run, because of the settings
    instead: str = ""  # most frequent fallback, as a clause; "" if unknown
    # why it most often fell back or failed with readable replies, or was skipped; "" if it did not
    reason: str = ""

    @property
    def without_effect(self) -> bool:
        """Whether none of its replies could be read."""
        return 0 < self.replies == self.unreadable

    @property
    def sentence(self) -> str:
        """What happened, with numerators and denominators."""
        parts = []
        if self.unreadable:
            instead = f": {self.instead}" if self.instead else ""
            parts.append(
                f"{self.unreadable:,} of {counted(self.replies, 'reply')} could not be read{instead}"
            )
        if self.fallbacks:
            parts.append(f"{self.reason} for {self.fallbacks:,} of {counted(self.questions, 'question')}")
        if self.skipped:
            parts.append(
                f"skipped for {self.skipped:,} of {counted(self.questions, 'question')}: {self.reason}"
            )
        return f"{self.stage}: {'; '.join(parts)}."


@dataclass(frozen=True, slots=True)
class Degradation:
    """Stages of a run that were not fully effective."""

    stages: tuple[DegradedStage, ...] = ()  # the stages concerned, in the order of the pipeline
    affected: int = 0  # questions in which at least one stage had an unreadable reply, fell back or failed
    questions: int = 0  # questions that did not fail, without a SQL too: the denominator of the share
    # of the questions that are affected, 0 to 1; None of none. It follows from the counts.
    share: float | None = None
    # one for each stage, and what it means for the score. They follow from the stages.
    sentences: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", self.affected / self.questions if self.questions else None)
        object.__setattr__(self, "sentences", self._sentences())

    def _sentences(self) -> tuple[str, ...]:
        if not self.stages:
            return ()
        sentences = [stage.sentence for stage in self.stages]
        without_effect = [stage.stage for stage in self.stages if stage.without_effect]
        if without_effect:
            sentences.append(f"The score is that of the pipeline without {' and '.join(without_effect)}.")
        elif self.affected:
            questions = counted(self.questions, "question")
            sentences.append(
                f"{self.affected:,} of {questions} that did not fail had a stage that fell back."
            )
        return tuple(sentences)


def find_degradation(outcomes: Iterable[Outcome]) -> Degradation:
    """Sum up the degraded stages of questions that did not fail; failed questions are counted elsewhere."""
    answered = [outcome for outcome in outcomes if outcome.failure is None]
    by_stage: dict[str, dict[str, list[StageRecord]]] = defaultdict(lambda: defaultdict(list))
    for outcome in answered:
        for record in _last_attempt(outcome):
            by_stage[record.stage][outcome.question_id].append(record)
    stages = (_sum_up(stage, list(records.values())) for stage, records in by_stage.items())
    return Degradation(
        stages=tuple(stage for stage in stages if stage.affected or stage.skipped),
        affected=sum(any(map(_is_degraded, _last_attempt(outcome))) for outcome in answered),
        questions=len(answered),
    )


def about_models(outcomes: Iterable[Outcome], pipeline: Mapping[str, Any]) -> str:
    """Return a sentence on replies that name more than one model; "" where they do not.

    A pipeline whose settings name further backbones is expected to have replies of several models.
    """
    if (pipeline.get("candidates") or {}).get("backbones") or pipeline.get("eliminator"):
        return ""
    names = Counter(
        call.model for outcome in outcomes for record in _last_attempt(outcome) for call in record.calls
    )
    if len(names) < 2:
        return ""
    models = [f"{name} ({counted(calls, 'call')})" for name, calls in names.most_common()]
    listed = shorten(models, MAX_MODELS)
    return f"The replies are of {len(names):,} models, so the score is that of none of them alone: {listed}."


def _last_attempt(outcome: Outcome) -> list[StageRecord]:
    """Return the stage records of a question without those of attempts that a re-run replaced."""
    return [record for record in outcome.stages if record.stage != FAILED_ATTEMPT]


def _sum_up(stage: str, questions: Sequence[Sequence[StageRecord]]) -> DegradedStage:
    """Count how often one stage was degraded, and why; `questions` has the records of the stage by question."""
    records = [record for question in questions for record in question]
    instead = Counter(record.fallback for record in records if record.unreadable and record.fallback)
    reasons = Counter(record.fallback or record.error for record in records if _fell_back(record))
    reasons.update(record.skipped for record in records if record.skipped)
    return DegradedStage(
        stage,
        questions=len(questions),
        affected=sum(any(map(_is_degraded, question)) for question in questions),
        replies=sum(record.replies for record in records),
        unreadable=sum(record.unreadable for record in records),
        fallbacks=sum(any(map(_fell_back, question)) for question in questions),
        skipped=sum(any(record.skipped for record in question) for question in questions),
        instead=most_frequent(instead),
        reason=most_frequent(reasons),
    )


def _is_degraded(record: StageRecord) -> bool:
    return bool(record.unreadable or record.fallback or record.error)


def _fell_back(record: StageRecord) -> bool:
    return bool(record.fallback or record.error) and not record.unreadable


def most_frequent(texts: Counter[str]) -> str:
    """Return the most frequent text on one line, after "most often" where there are several texts; "" of none.

    >>> most_frequent(Counter(["a", "a"])), most_frequent(Counter(["a", "b", "b"]))
    ('a', 'most often b')
    """
    text = " ".join(texts.most_common(1)[0][0].split()) if texts else ""
    return f"most often {text}" if text and len(texts) > 1 else text
