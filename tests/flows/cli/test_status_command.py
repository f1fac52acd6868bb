"""`crosscheck status`: what it says of batches whose answers were not collected."""

from pathlib import Path

import pytest

from tasks.backbone.cache.store import SqliteReplyCache
from tests.support.in_process import run


@pytest.mark.parametrize("ended", [True, False])
def test_batches_under_way_are_named_until_their_end_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        batches = cache.batches("http://provider/v1")
        batches.begin("token", ["a", "b"])
        batches.submitted("token", "batch_0")
        if ended:
            batches.ended("token", 90.0)
    ran = run("status")
    assert ran.code == 0, ran.err
    assert ("1 batch under way (2 requests), the first since" in ran.out) is not ended
