"""Replies that were paid for: removed only where the user asks for it."""

import datetime
from pathlib import Path

from tasks.backbone.cache.store import open_reply_cache
from tasks.core.errors import CrosscheckError
from tasks.settings.home import Home, find_replies
from tasks.tracking.retention.kept_runs import Retention
from tasks.tracking.retention.store import Holding, Store

NAME = "replies"


class Replies(Store):
    """The reply cache, in the working folder or where CROSSCHECK_REPLIES names it.

    Args:
        home: the working folder.
        may_remove: whether replies may be removed.
    """

    def __init__(self, home: Home, *, may_remove: bool) -> None:
        super().__init__(NAME, home.replies)
        self._place = find_replies(home)
        self._may_remove = may_remove

    def holding(self, retention: Retention) -> Holding:
        """Count the replies and what they cost."""
        if isinstance(self._place, Path) and not self._place.exists():
            return Holding(self.name, self._place, counts={"replies": 0})
        try:
            with open_reply_cache(self._place) as cache:
                stats, old = cache.stats(), cache.stats(_since(retention))
        except CrosscheckError as error:
            return Holding(self.name, self.path, note=str(error))
        costs = [model.cost_usd for model in stats.models]
        unpriced = sum(model.unpriced for model in stats.models)
        known = sum(cost for cost in costs if cost is not None)
        return Holding(
            self.name,
            Path(stats.place),
            stats.bytes,
            {"replies": stats.entries},
            {"replies": old.entries if self._may_remove else 0},
            stats.bytes * old.entries // stats.entries if self._may_remove and stats.entries else 0,
            cost_usd=None if unpriced == stats.entries else known,
            note=f"{unpriced:,} replies without a known price" if 0 < unpriced < stats.entries else "",
        )

    def cost_of_removable(self, retention: Retention) -> tuple[float, int]:
        """Return what the replies that would be removed have cost, and how many have no known price."""
        with open_reply_cache(self._place) as cache:
            models = cache.stats(_since(retention)).models
        return sum(each.cost_usd or 0.0 for each in models), sum(each.unpriced for each in models)

    def remove(self, retention: Retention) -> None:
        """Remove old replies if that is allowed; the cache shrinks itself."""
        if self._may_remove:
            with open_reply_cache(self._place) as cache:
                cache.prune(older_than=_since(retention))


def _since(retention: Retention) -> datetime.timedelta:
    return datetime.datetime.now(datetime.UTC) - retention.cutoff
