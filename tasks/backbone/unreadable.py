"""Limit that stops a run whose model writes unreadable replies."""

from collections import Counter
from collections.abc import Iterable

from tasks.core.errors import BackboneError
from tasks.core.outcome import Call

FAILED = "failed"
"""`Call.parse` of a reply that could not be read."""


class UnreadableReplies:
    """Counts of a run's replies by stage; the run stops if the first replies of a stage are all unreadable.

    Args:
        limit: how many; 0: never.
    """

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._failed: Counter[str] = Counter()
        self._read: set[str] = set()
        self._stopped_by = ""

    def count(self, label: str | None, calls: Iterable[Call]) -> None:
        """Count replies of a stage, given its label; restored and cached ones count too."""
        stage = (label or "").partition(" ")[0]
        if not stage or stage in self._read or not self._limit:
            return
        parses = [call.parse for call in calls]
        self._failed[stage] += len(parses)
        if any(parse != FAILED for parse in parses):
            self._read.add(stage)
        elif self._failed[stage] >= self._limit:
            self._stopped_by = self._stopped_by or stage

    def check(self) -> None:
        """Refuse a further request if the run is to stop.

        Raises:
            BackboneError: fatal; it names the stage and the settings to change.
        """
        if self._stopped_by:
            raise BackboneError(
                f"{self._stopped_by}: none of the first {self._failed[self._stopped_by]:,} replies could be read, so "
                "the run was stopped to avoid further cost. Change the form of the replies with backbone.reply "
                "(json, json_with_reasoning, fenced) or backbone.response_mode (json_schema, json_object, text), in an "
                "agent's turn with pipeline.tools (native, text), or set backbone.unreadable_limit=0 to continue "
                "regardless.",
                transient=False,
                fatal=True,
            )
