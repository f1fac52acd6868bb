"""A night's file and a run that waits for MLflow, both written by commit 39ba542."""

import json
from pathlib import Path

from tasks.tracking.mlflow.package import fetch, keep
from tasks.tracking.night.night_file import as_object, read
from tests.tasks.tracking.earlier_release import RUN, WRITTEN
from tests.tasks.tracking.samples import make_run

NIGHT_FILE = WRITTEN / "2026-11-21T01-30Z.json"


def test_a_night_is_read_and_written_again_without_loss() -> None:
    night = read(NIGHT_FILE)
    now = json.loads(json.dumps(as_object(night)))
    assert [now.pop(name) for name in ("colour", "missed", "expected")] == [
        "red",
        [],
        None,
    ]  # later than that commit
    assert {now["gate"].pop(name) for name in ("doubt_level", "trend_nights", "trend_level")} == {
        0.05,
        14,
        0.01,
    }
    assert now["gate"].pop("degraded_share") == 0.05
    now["verdict"] = now["verdict"].replace(" (−30.43 points)", "")  # later than that commit
    for name, none in (
        ("efficiency", {}),
        ("pinned", None),
        ("decline", None),
        ("corrected", None),
        ("corrected_differs", None),
        ("degraded", 0.0),
        ("degradation", []),
    ):
        assert [entry.pop(name) for entry in now["evaluations"]] == [none, none]
    assert now == json.loads(NIGHT_FILE.read_text(encoding="utf-8"))
    regression, refused = night.entries
    assert regression.entry.comparison is not None
    assert regression.entry.comparison.only_a == ("20",)
    assert [past.ex.correct for past in regression.entry.trend] == [16, 9]
    assert refused.entry.problem == "The key is missing."
    assert night.finished > night.started


def test_a_run_that_waits_for_mlflow_is_read_and_kept_again_without_loss(tmp_path: Path) -> None:
    package = fetch(WRITTEN, RUN)
    assert package.run == make_run(engine="SQLite 3.40.1")
    assert package.files["figures/every_byte.bin"] == bytes(range(256))
    assert {measure.name: measure.value for measure in package.measures}["ex"] == 0.666667
    assert package.tags["crosscheck_run_id"] == RUN
    keep(package, tmp_path)
    assert fetch(tmp_path, RUN) == package
