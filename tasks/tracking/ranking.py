"""Which runs may be ranked: not one that saw gold SQL, nor one that asked questions again after judging them."""

from collections.abc import Mapping
from typing import Any

REROLLED, ORACLE = "rerolled", "oracle"
"""Tags of such runs, as flows write them."""


def why_unranked(tags: Mapping[str, str], settings: Mapping[str, Any]) -> str:
    """Return why a run must not be ranked, as a clause without its subject; "" when it may be.

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
