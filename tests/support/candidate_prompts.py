"""The golden cases of the prompts that select among candidates."""

from collections.abc import Awaitable

from tasks.database.schema_text import SchemaView
from tasks.stages.candidates import (
    CandidateGroup,
    Comparison,
    MergeRequest,
    compare_candidates,
    merge_candidates,
)
from tests.support.stage_bench import QUESTION, Bench

GOOD, EMPTY = "SELECT name FROM museum", "SELECT name FROM museum WHERE id = 9"
GROUPS = (CandidateGroup(GOOD, 5), CandidateGroup(EMPTY, 1))


def shown(bench: Bench) -> SchemaView:
    return SchemaView(bench.schema, descriptions=True).limited_to({"museum"})


def comparison(bench: Bench) -> Awaitable[object]:
    return compare_candidates(
        QUESTION, shown(bench), Comparison(GOOD, EMPTY, rows=2), bench.runner, bench.backbone
    )


def merge(bench: Bench) -> Awaitable[object]:
    return merge_candidates(
        QUESTION, shown(bench), MergeRequest(GROUPS, rows=2), bench.runner, bench.backbone
    )


CANDIDATE_CASES = {"compare_candidates.plain": comparison, "merge_candidates.plain": merge}
