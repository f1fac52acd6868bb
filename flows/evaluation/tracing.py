"""Traces of an evaluation: keeps what was said until the run ends, chooses questions, and has MLflow told."""

from typing import Protocol

from flows.questions.preparation import Preparation
from tasks.backbone.cache.entry import Entry
from tasks.backbone.factory import kind_of
from tasks.backbone.protocol import Backbone, Message
from tasks.backbone.recordings.exchanges import Exchange, OverheardBackbone
from tasks.scoring.report import QuestionScore, Report
from tasks.tracking.mlflow.run import Tracker
from tasks.tracking.mlflow.trace_choice import choose, is_failed, sample_of


class BoughtReplies(Protocol):
    """Where replies that were paid for are kept."""

    def entry(self, key: str) -> Entry | None:
        """Return the whole entry of a request, what was asked included; None when there is none."""
        ...


class Tracing:
    """The traces of one evaluation.

    What a model said is in the reply cache. What the offline backbone or a recording said is in none, so it is
    overheard, and dropped as soon as its question turns out not to be traced.
    """

    def __init__(self, preparation: Preparation, replies: BoughtReplies) -> None:
        self._settings = preparation.settings.tracking
        self._cached = kind_of(preparation.settings.backbone).paid
        self._replies = replies
        self._sample = sample_of(
            (question.id for question in preparation.executable), self._settings.sample_traces
        )
        self._overheard: OverheardBackbone | None = None

    def overhear(self, backbone: Backbone) -> Backbone:
        """Return the backbone to ask instead of this one."""
        if self._cached or not (self._settings.failed_traces or self._sample):
            return backbone
        self._overheard = OverheardBackbone(backbone)
        return self._overheard

    def heard(self, score: QuestionScore) -> None:
        """Hear that a question is through and scored."""
        if self._overheard and not (score.question.id in self._sample or is_failed(score)):
            self._overheard.forget(score.question.id)

    def write(self, tracker: Tracker, report: Report) -> tuple[str, str]:
        """Write the traces; return what the run's description says of them, and what kept them from being written."""
        wanted = self._settings
        choice = choose(
            report,
            failed=wanted.failed_traces,
            sample=wanted.sample_traces,
            all_scored=wanted.genai_evaluation,
        )
        problem = tracker.trace(choice, self._said)
        return ("no traces", f"MLflow has no traces of this run: {problem}") if problem else (str(choice), "")

    def _said(self, question: str, key: str) -> Exchange | None:
        if self._overheard and (heard := self._overheard.heard(question, key)):
            return heard
        entry = self._replies.entry(key)
        if entry is None:
            return None
        messages = tuple(Message(role, content) for role, content in entry.request["messages"])
        return Exchange(messages, entry.text)
