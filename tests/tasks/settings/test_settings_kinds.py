"""Settings whose model follows from a name: built in, in a file or package."""

import shutil
from pathlib import Path

import pytest
from prefect.utilities.schema_tools.validation import validate

import flows.pipelines
from flows.evaluate.shard_flow import answer_shard
from flows.pipelines.pipeline import pipeline_of
from tasks.core.errors import ConfigurationError
from tasks.core.registry import Registry
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.kinds import PIPELINES
from tasks.settings.load import load_pipeline_settings

CONF = find_conf()
VOTE = """
from flows.pipelines.pipeline import pipeline
from tasks.settings.pipeline import PipelineSettings


class VoteSettings(PipelineSettings):
    votes: int = 3


@pipeline(VoteSettings)
async def vote(question, context):
    return "SELECT 1"
"""


@pytest.fixture
def vote(tmp_path: Path) -> Path:
    file = tmp_path / "vote.py"
    file.write_text(VOTE, encoding="utf-8")
    return file


@pytest.fixture
def settings(vote: Path, tmp_path: Path) -> EvaluationSettings:
    chosen = {"benchmark": "demo", "backbone": "offline", "pipeline": f"{vote}:vote"}
    overrides = ["pipeline.votes=5"]
    return evaluation_settings(EvaluationChoice(**chosen, overrides=overrides, home=str(tmp_path / "home")))


def test_a_pipeline_of_a_file_keeps_its_own_settings_through_json(settings: EvaluationSettings) -> None:
    assert settings.label == "offline | vote"
    for read in (
        EvaluationSettings.model_validate_json(settings.model_dump_json()),
        EvaluationSettings.model_validate(settings.model_dump(mode="json")),
    ):
        assert read == settings
        assert read.pipeline.model_dump()["votes"] == 5
    assert pipeline_of(settings.pipeline).settings is type(settings.pipeline)


def test_prefect_takes_settings_of_a_users_file_as_parameters(settings: EvaluationSettings) -> None:
    schema = answer_shard.parameters.model_dump()
    shard = {"run": "r", "number": 1, "of": 2}
    validate({"settings": settings.model_dump(mode="json"), "shard": shard}, schema, raise_on_error=True)


def test_a_path_is_relative_to_the_yaml_file_or_on_the_command_line_to_the_working_directory(
    vote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "mine.yaml").write_text("kind: ../vote.py:vote\nvotes: 4\n", encoding="utf-8")
    found = load_pipeline_settings(CONF, str(conf / "mine.yaml"))
    assert (found.kind, found.name) == (f"{vote}:vote", "mine")
    monkeypatch.chdir(tmp_path)
    for name, overrides in (("vote.py:vote", []), ("zero-shot", ["pipeline.kind=vote.py:vote"])):
        assert load_pipeline_settings(CONF, name, overrides).kind == f"{vote}:vote"


@pytest.mark.parametrize(("name", "overrides", "said"), [
    ("vote.py:vote", ["pipeline.vots=1"], '--set pipeline.vots=1: there is no key "vots". Did you mean "votes"?'),
    ("vote.py:vote", ["pipeline.votes=many"], "--set pipeline.votes=many: Input should be a valid integer"),
    ("vote.py:vot", [], 'has no pipeline "vot". Did you mean "vote"?'),
    ("gone.py:vote", [], "gone.py: no such file, so there is no pipeline in it."),
    ("vote.py:VoteSettings", [], "what it names has no attribute `settings`"),
])  # fmt: skip
def test_what_is_wrong_with_ones_own_pipeline_is_said_as_of_any_other(
    vote: Path, monkeypatch: pytest.MonkeyPatch, name: str, overrides: list[str], said: str
) -> None:
    monkeypatch.chdir(vote.parent)
    with pytest.raises(ConfigurationError) as caught:
        load_pipeline_settings(CONF, name, overrides)
    assert said in str(caught.value)


def test_two_files_that_define_a_stage_of_one_name_share_no_result(tmp_path: Path) -> None:
    source = "from crosscheck import stage\n\n@stage()\nasync def step(text: str) -> str:\n    return text\n"
    keys = set()
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(source, encoding="utf-8")
        step = Registry("stage", package="tasks.stages", group="test").get(f"{tmp_path / name}:step")
        keys.add(step.key({"text": "a"}))
        assert step.key({"text": "a"}) == step.key({"text": "a"})
        assert step.key({"text": "a"}).startswith("step/")
    assert len(keys) == 2


def _offer(
    package: object, folder: Path, registry: Registry[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Treat a folder's modules as modules of a package that has not been imported yet."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])  # type: ignore[attr-defined]
    monkeypatch.setattr(registry, "_implementations", dict(registry._implementations))
    monkeypatch.setattr(registry, "_imported", False)


def test_a_built_in_pipeline_is_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf, package = tmp_path / "conf", tmp_path / "package"
    shutil.copytree(CONF, conf, ignore=shutil.ignore_patterns("demo"))
    package.mkdir()
    (package / "thrown_away.py").write_text(
        VOTE.replace("@pipeline(VoteSettings)", '@pipeline(VoteSettings, name="thrown-away")'),
        encoding="utf-8",
    )
    (conf / "pipelines" / "thrown-away.yaml").write_text("kind: thrown-away\nvotes: 7\n", encoding="utf-8")
    _offer(flows.pipelines, package, PIPELINES, monkeypatch)
    settings = load_pipeline_settings(conf, "thrown-away")
    assert settings.model_dump()["votes"] == 7
    assert pipeline_of(settings).settings is type(settings)
