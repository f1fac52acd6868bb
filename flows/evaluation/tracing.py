"""Traces of an evaluation: keeps prompts and replies until the run ends, chooses questions, and writes to MLflow."""

from collections.abc import Mapping

from flows.questions.preparation import Preparation
from flows.show.exchanges import cached_exchange
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.recordings.observed import Exchange, Observations
from tasks.scoring.report import QuestionScore, Report, is_right
from tasks.tracking.mlflow.trace_choice import choose, is_failed, sample_of
from tasks.tracking.mlflow.tracker import Tracker


class Tracing:
    """The traces of one evaluation.

    A nightly run traces an answer without its stages if it has the same verdict as in the run before, unless it failed:
    most of what nightly runs add to MLflow would be the same prompts.

    Attributes:
        before: whether answers were right in the run before, by question id; {} until that is known.

    Replies of models are read from the reply cache. Those of the offline backbone and of recordings are not cached, so
    the backbone is observed; replies to a question are dropped when scoring shows that it is not traced.
    """

    def __init__(
        self,
        preparation: Preparation,
        replies: ReplyCache,
        observed: Observations | None,
        *,
        nightly: bool = False,
    ) -> None:
        self._settings = preparation.settings.tracking
        self._rule = preparation.settings.benchmark.rule
        self._replies = replies
        self._observed = observed
        self._sample = sample_of(
            (question.id for question in preparation.executable), self._settings.sample_traces
        )
        self._nightly = nightly
        self.before: Mapping[str, bool] = {}

    def scored(self, score: QuestionScore) -> None:
        """Drop the replies to a scored question that is not traced."""
        wrong = is_failed(score) or not is_right(score.final, self._rule)
        wanted = wrong or self._flipped(score) or score.question.id in self._sample
        if self._observed and (self._unchanged(score) or not wanted):
            self._observed.drop(score.question.id)

    def _flipped(self, score: QuestionScore) -> bool:
        right = is_right(score.final, self._rule)
        return self.before.get(score.question.id, right) is not right

    def _unchanged(self, score: QuestionScore) -> bool:
        """Return whether a nightly run has the same verdict as the run before on an answer that did not fail."""
        known = self._nightly and score.question.id in self.before
        return known and not is_failed(score) and not self._flipped(score)

    def write(self, tracker: Tracker, report: Report) -> tuple[str, str]:
        """Write the traces; return a remark for the run's description, and the error message or ""."""
        wanted = self._settings
        choice = choose(
            report,
            failed=wanted.failed_traces,
            sample=wanted.sample_traces,
            brief=len(report.rows) if wanted.genai_evaluation else wanted.brief_traces,
            flipped={row.question.id for row in report.rows if self._flipped(row)},
            unchanged={row.question.id for row in report.rows if self._unchanged(row)},
        )
        problem = tracker.trace(choice, self._exchange)
        return ("no traces", f"MLflow has no traces of this run: {problem}") if problem else (str(choice), "")

    def _exchange(self, question: str, key: str) -> Exchange | None:
        if self._observed and (exchange := self._observed.exchange(question, key)):
            return exchange
        return cached_exchange(self._replies, key)
