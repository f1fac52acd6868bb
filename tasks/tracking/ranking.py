"""Which runs may be ranked: one that saw the gold, or was asked again where it was wrong, measures something else."""

from collections.abc import Mapping
from typing import Any

REROLLED, ORACLE = "rerolled", "oracle"
"""Tags of such runs, as flows write them."""


def why_unranked(tags: Mapping[str, str], settings: Mapping[str, Any]) -> str:
    """Say what keeps a run from being ranked, as what it did; "" when nothing does.

    Args:
        tags: of the run.
        settings: of the run.
    """
    pipeline = settings.get("pipeline") or {}
    parts = (pipeline.get("dac") or {}).get("oracle", "none")
    if ORACLE in tags or parts != "none":
        return "saw parts of the gold SQL (an oracle analysis)"
    if REROLLED in tags:
        return "had questions asked again after their answers were judged (re-rolled)"
    return ""
