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


@pytest.mark.parametrize("tag", ["team", "=search", "team=", "mlflow.user=me", "what?=1"])
def test_a_tag_that_cannot_be_one_is_named_with_its_cure(tag: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--tag.*write a name and a value"):
        labels(None, [tag], None)


def test_a_tag_that_crosscheck_writes_itself_is_refused_on_the_command_line_and_in_forms() -> None:
    with pytest.raises(ConfigurationError, match=r"^--tag.*Crosscheck writes it itself"):
        labels(None, ["sweep=mine"], None)
    with pytest.raises(ValueError, match="Crosscheck writes it itself"):
        Labels(tags={"status": "fine"})


def changed(*overrides: str, home: Path, backbone: str = "offline") -> tuple[str, ...]:
    named = {"benchmark": "demo", "backbone": backbone, "pipeline": "few-shot"}
    return evaluation_settings(EvaluationChoice(**named, overrides=overrides, home=str(home))).changed


def test_what_differs_from_the_named_settings_is_known(tmp_path: Path) -> None:
    assert changed(home=tmp_path) == ()
    assert changed("pipeline.demonstrations.k=3", "tracking.sample_traces=3", home=tmp_path) == ()
    other = "pipeline.demonstrations.k=4"
    assert changed(other, home=tmp_path) == (other,)
    assert changed("pipeline.demonstrations.k=1", other, home=tmp_path) == (other,), "the last one counts"
    assert changed(other, "pipeline.demonstrations.k=3", home=tmp_path) == ()
    (tmp_path / "replies.jsonl").touch()
    necessary = f"backbone.recording={tmp_path / 'replies.jsonl'}"
    assert changed(necessary, home=tmp_path, backbone="replay") == (necessary,)
