"""Names, tags and notes of runs, and which settings count as changed."""

from pathlib import Path

import pytest

from tasks.core.errors import ConfigurationError
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice, Labels, labels, labels_in_words


def test_a_name_tags_and_a_note_become_tags_of_the_run() -> None:
    found = labels("new prompt", ["team=search", " url = a=b "], "shorter")
    assert found.as_tags == {"name": "new prompt", "note": "shorter", "team": "search", "url": "a=b"}
    assert labels(None, (), None).as_tags == {}
    written = found.as_tags | {"sweep": "2026", "changed": "limit=3"}
    assert labels_in_words(written) == "new prompt · team=search · url=a=b · shorter"


@pytest.mark.parametrize(
    ("tag", "says"),
    [
        ("team", "write a name and a value"),
        ("=search", "write a name and a value"),
        ("team=", "write a name and a value"),
        ("sweep=mine", "Crosscheck writes it itself"),
        ("mlflow.user=me", "write a name and a value"),
        ("what?=1", "write a name and a value"),
    ],
)
def test_a_tag_that_cannot_be_one_is_named_with_its_cure(tag: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        labels(None, [tag], None)
    assert str(raised.value).startswith("--tag")


def test_the_forms_of_deployments_refuse_the_same() -> None:
    with pytest.raises(ValueError, match="Crosscheck writes it itself"):
        Labels(tags={"status": "fine"})


def changed(*overrides: str, home: Path, backbone: str = "offline") -> tuple[str, ...]:
    choice = EvaluationChoice(
        benchmark="demo",
        backbone=backbone,
        pipeline="few-shot",
        overrides=overrides,
        home=str(home),
    )
    return evaluation_settings(choice).changed


def test_what_differs_from_the_named_settings_is_known(tmp_path: Path) -> None:
    assert changed(home=tmp_path) == ()
    default = evaluation_settings(EvaluationChoice(benchmark="demo", backbone="offline", pipeline="few-shot"))
    k = default.pipeline.demonstrations.k  # type: ignore[union-attr]
    same, other = f"pipeline.demonstrations.k={k}", f"pipeline.demonstrations.k={k + 1}"
    assert changed(same, "tracking.sample_traces=3", home=tmp_path) == ()
    assert changed(other, home=tmp_path) == (other,)


def test_a_setting_without_which_a_backbone_cannot_be_is_a_change(tmp_path: Path) -> None:
    recording = tmp_path / "replies.jsonl"
    recording.write_text("", encoding="utf-8")
    override = f"backbone.recording={recording}"
    assert changed(override, home=tmp_path, backbone="replay") == (override,)
