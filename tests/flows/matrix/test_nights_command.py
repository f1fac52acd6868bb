"""`crosscheck nights`: the user's file, and its deployment to a real server of Prefect."""

import datetime
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
import yaml
from prefect import Flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate

from flows.cli.commands.nights import NAME
from flows.evaluate.deployment import (
    evaluate_by_name,
    named_evaluations,
    open_home,
    rerun_by_name,
    use_deployed_home,
)
from flows.evaluate.forms import Cleaning, EvaluationForm, Matrix, RerunForm, offering
from flows.matrix import nightly as night_flow
from flows.matrix.nightly import nightly
from flows.matrix.nights_file import TEMPLATE, NightsFile, read_nights
from flows.prefect.schedule import deploy_nights, name_of, read_status
from flows.prefect.settings import DEPLOYED_HOME, apply
from flows.prefect.up import POOL
from flows.runtime import folder_use
from tasks.core.errors import ConfigurationError, CrosscheckError, DataError
from tasks.settings.choices import Keep
from tests.support.command_line import CommandLine, Ran
from tests.support.disk import Disk, disk
from tests.support.http_server import refusing_server
from tests.support.schedule import ask

__all__ = ["disk"]


def written(folder: Path, text: str) -> Path:
    file = folder / NAME
    file.write_text(text, encoding="utf-8")
    return file


def test_the_file_to_begin_with_is_valid_and_holds_only_parameters_of_the_flow(tmp_path: Path) -> None:
    nights = read_nights(written(tmp_path, TEMPLATE))
    assert nights.schedule == "30 1 * * *" and nights.matrix.pipelines == ["few-shot", "rsl-sql"]
    assert set(nights.parameters) == {"matrix", "ask_again", "gate", "keep"}
    commented = TEMPLATE.replace("# budget_usd", "budget_usd").replace("# finish_by", "finish_by")
    nights = read_nights(written(tmp_path, commented.replace("timezone: UTC", "timezone: Europe/Berlin")))
    assert nights.budget_usd == 50
    assert nights.parameters["finish_by"] == "07:00 Europe/Berlin", (
        "a worker's machine may be in another zone"
    )


@pytest.mark.parametrize(("change", "message"), [
    ("matrx: {}", 'there is no key "matrx". Did you mean "matrix"?'),
    ("timezone: Europe/Brlin", '"Europe/Brlin" is no time zone'),
    ("timezone: localtime", '"localtime" is no time zone'),
    ("budget_usd: -1", "greater than 0"),
    ('finish_by: "2026-12-24T07:00"', '"2026-12-24T07:00" is not a time of day such as 07:00'),
    ("schedule: 5", "valid string"),
    ("schedule: [", "is not YAML"),
])  # fmt: skip
def test_wrong_files_are_named_with_the_key(change: str, message: str, tmp_path: Path) -> None:
    key = change.partition(":")[0]
    lines = [line for line in TEMPLATE.splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(ConfigurationError, match=r"nights\.yaml") as caught:
        read_nights(written(tmp_path, "\n".join([*lines, change])))
    assert message in str(caught.value)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = TEMPLATE.replace("[offline]", "[offline, ./mine.yaml, code.py:kind]").replace(
        "# overrides: [pipeline.demonstrations.k=5]",
        'overrides: [backbone.reply=form.py:Mine, pipeline.votes=2]\n  questions: "@ids.txt"',
    )
    (tmp_path / "ids.txt").write_text("1\n", encoding="utf-8")
    nights = read_nights(written(tmp_path, text))
    assert nights.matrix.backbones == ["offline", str(tmp_path / "mine.yaml"), f"{tmp_path / 'code.py'}:kind"]
    assert nights.matrix.overrides == [f'backbone.reply="{tmp_path / "form.py"}:Mine"', "pipeline.votes=2"]
    assert nights.matrix.questions == f"@{tmp_path / 'ids.txt'}"
    assert nights.files == {"benchmark": [], "backbone": nights.matrix.backbones[1:], "pipeline": []}


def test_a_matrix_names_evaluations_as_their_files_do_and_each_once(tmp_path: Path) -> None:
    def matrix(**texts: str) -> Matrix:
        for folder, text in texts.items():
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "model.yaml").write_text(text, encoding="utf-8")
        return Matrix(
            backbones=[str(tmp_path / folder / "model.yaml") for folder in texts], pipelines=["zero-shot"]
        )

    named = named_evaluations(matrix(a="name: ours\nmodel: m\n", b="unreadable"))
    assert [backbone for _, backbone, _ in named] == ["ours", "model"]
    with pytest.raises(ConfigurationError, match=r"are named .demo \| model \| zero-shot") as caught:
        named_evaluations(matrix(a="model: m\n", b="model: m\n"))
    files = f"{tmp_path / 'a' / 'model.yaml'} and {tmp_path / 'b' / 'model.yaml'}"
    assert f"Write another name into one of the files ({files}), as `name: ...`." in str(caught.value)
    with pytest.raises(ConfigurationError, match="Name it once"):
        named_evaluations(Matrix(backbones=["offline", "offline"]))


def test_a_missing_file_and_an_existing_one_are_said(run_here: Callable[..., Ran], tmp_path: Path) -> None:
    missing = run_here("nights", "deploy", str(tmp_path / "none.yaml"))
    missing.assert_refused("`crosscheck nights init` writes one")
    file = tmp_path / "mine.yaml"
    assert run_here("nights", "init", str(file)).code == 0
    run_here("nights", "init", str(file)).assert_refused("exists")
    assert NightsFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_forms_begin_with_what_is_chosen_and_show_no_null() -> None:
    for form, first in ((Matrix, "benchmarks"), (EvaluationForm, "benchmark"), (RerunForm, "run")):
        properties = form.model_json_schema()["properties"]
        assert next(iter(properties)) == first and list(properties)[-3:] == ["name", "tags", "note"]
        assert not [name for name, each in properties.items() if "null" in str(each)]
    assert RerunForm.model_json_schema()["properties"]["only"]["enum"][0] == "errors"


def test_a_field_for_a_name_keeps_the_path_that_is_typed_and_a_list_says_its_names() -> None:
    """Prefect's UI shows a text by the first choice that has its type, at each letter."""
    with offering({"backbone": ["/team/ours.yaml"]}):
        one, several = (form.model_json_schema()["properties"] for form in (EvaluationForm, Matrix))
    typed, listed = one["backbone"]["anyOf"]
    assert typed["type"] == "string" and "enum" not in typed
    assert "type" not in listed and {"/team/ours.yaml", "offline"} <= set(listed["enum"])
    assert several["backbones"]["items"]["enum"] == listed["enum"]


def fields_of(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of a schema, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for part in schema.values():
            yield from fields_of(part)


@pytest.mark.parametrize("flow", [nightly, evaluate_by_name, rerun_by_name], ids=lambda flow: flow.name)
def test_a_form_can_be_submitted_as_it_opens_and_no_field_is_null(flow: Flow[..., Any]) -> None:
    schema = parameter_schema(flow).model_dump()
    fields = list(fields_of(schema))
    assert len(fields) > 8
    for name, field in fields:
        assert {"type": "null"} not in field.get("anyOf", []), f'{name} shows: Property is type "None"'
        assert field.get("default", "") is not None, f"Prefect refuses the untouched field {name}"
    defaults = {name: field["default"] for name, field in schema["properties"].items()}
    assert defaults
    validate(defaults, schema, raise_on_error=True)  # what Prefect's server does with what the form sends


def test_what_is_left_empty_is_no_value_that_the_form_refuses_and_cleans_nothing(tmp_path: Path) -> None:
    empty = TEMPLATE.replace("  pipelines:", "  limit: null\n  questions: null\n  pipelines:")
    parameters = read_nights(written(tmp_path, empty)).parameters
    assert "limit" not in parameters["matrix"]
    validate(parameters, parameter_schema(nightly).model_dump(), raise_on_error=True)
    assert Cleaning().keep is None
    assert Cleaning(age="30d", runs=3).keep == Keep(age="30d", runs=3)
    with pytest.raises(ValueError, match="write a number and d, h or m"):
        Cleaning(age="soon").keep  # noqa: B018  # the property checks it


def test_an_empty_address_of_a_server_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """With it, Prefect starts a server of its own, and nights that are deployed there never run."""
    monkeypatch.setenv("PREFECT_API_URL", "")
    apply({"PREFECT_API_URL": "http://127.0.0.1:1/api"})
    assert os.environ["PREFECT_API_URL"] == "http://127.0.0.1:1/api"


@pytest.mark.parametrize(("body", "status"), [(b"<html>", 200), (b"", 200), (b'{"x": 1}', 200), (b"", 404)])
async def test_an_address_at_which_another_service_answers_is_named(body: bytes, status: int) -> None:
    with (
        refusing_server(body, status) as url,
        temporary_settings({PREFECT_API_URL: f"{url}/api"}),
        pytest.raises(CrosscheckError, match=r"Correct PREFECT_API_URL \(it usually ends in /api\)"),
    ):
        await read_status(POOL)


async def test_a_worker_without_a_working_folder_uses_that_of_the_deployment_or_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", "")
    monkeypatch.setenv(DEPLOYED_HOME, str(tmp_path / "elsewhere"))
    use_deployed_home()
    with pytest.raises(ConfigurationError, match="Set CROSSCHECK_HOME where the worker is started"):
        await open_home()
    (tmp_path / "elsewhere").mkdir()
    use_deployed_home()
    assert os.environ["CROSSCHECK_HOME"] == str(tmp_path / "elsewhere")
    monkeypatch.setenv("CROSSCHECK_HOME", "mine")
    use_deployed_home()
    assert os.environ["CROSSCHECK_HOME"] == "mine"


def test_a_file_that_could_not_be_written_is_not_there(
    disk: Disk, run_here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(disk.folder)
    with disk.full():
        run_here("nights", "init").assert_refused("nights.yaml cannot be written: No space left on device.")
    assert run_here("nights", "init").code == 0


def test_nights_that_are_started_by_hand_within_a_minute_have_names_of_their_own() -> None:
    scheduled = datetime.datetime(2026, 11, 21, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    by_hand = [scheduled + datetime.timedelta(seconds=seconds) for seconds in (0, 17.5, 18.5)]
    assert [name_of(start) for start in by_hand] == [
        "2026-11-21T01:30Z", "2026-11-21T01:30:17Z", "2026-11-21T01:30:18Z",
    ]  # fmt: skip


@pytest.mark.slow
async def test_a_refusal_is_one_sentence(prefect_server: str) -> None:
    wrong = {"matrix": {"backbones": ["offlin"]}}
    with temporary_settings({PREFECT_API_URL: prefect_server}), pytest.raises(CrosscheckError) as refused:
        await deploy_nights("refused", "30 1 * * *", "UTC", wrong, {})
    message = str(refused.value)
    assert message.startswith("Prefect's server at http://127.0.0.1:")
    assert 'refused the deployment "nightly" (HTTP 4' in message, "422 for a new deployment, 409 for another"
    assert "Validation failed for field 'matrix.backbones[0]'" in message
    assert "'offlin' is not one of ['anthropic', " in message and len(message) < 450


@pytest.mark.slow
def test_a_file_is_deployed_and_its_schedule_replaced(
    crosscheck: CommandLine, prefect_server: str, tmp_path: Path
) -> None:
    crosscheck.environment = {**crosscheck.environment, "PREFECT_API_URL": prefect_server}
    if not any(each["name"] == "nightly" for each in ask(f"{prefect_server}/deployments/filter", {})):
        none = crosscheck.run("nights", "run")
        assert none.code == 2 and "No nightly run is deployed" in none.err
    file = written(tmp_path, TEMPLATE)
    for cron in ("0 1 * * *", "30 1 * * *"):
        file.write_text(TEMPLATE.replace("30 1 * * *", cron), encoding="utf-8")
        first = crosscheck.run("nights", "deploy", str(file), "--json")
    assert first.code == 0, first.err
    assert first.json["deployed"] and "T01:30:00" in first.json["expected"]
    file.write_text(TEMPLATE.replace("30 1 * * *", "15 4 * * *"), encoding="utf-8")
    assert crosscheck.run("nights", "deploy", str(file)).code == 0
    shown = crosscheck.run("nights", "status", "--json").json
    assert shown["schedule"] == "15 4 * * * (UTC)" and "T04:15:00" in shown["expected"]
    found = {each["name"]: each for each in ask(f"{prefect_server}/deployments/filter", {})}
    assert {"nightly", "evaluate", "rerun"} <= set(found)
    for name in ("nightly", "evaluate", "rerun"):
        fields = found[name]["parameter_openapi_schema"]["properties"]
        opened = {field: schema["default"] for field, schema in fields.items()} | found[name]["parameters"]
        url = f"{prefect_server}/deployments/{found[name]['id']}/create_flow_run"
        submitted = httpx.post(url, json={"parameters": opened, "state": {"type": "SCHEDULED"}})
        assert opened and submitted.is_success, f"{name} as it opens: {submitted.text}"
        httpx.delete(f"{prefect_server}/flow_runs/{submitted.json()['id']}").raise_for_status()
    night = found["nightly"]
    assert (night["work_pool_name"], night["global_concurrency_limit"]["limit"]) == (POOL, 1)
    assert night["parameters"]["matrix"]["pipelines"] == ["few-shot", "rsl-sql"]
    assert crosscheck.run("nights", "status", "--json").json["without_result"] == ""
    name = "2026-12-04T01:30Z"
    create = f"{prefect_server}/deployments/{night['id']}/create_flow_run"
    crashed = ask(create, {"parameters": {"night": name}})
    state = {"type": "CRASHED", "name": "Crashed", "message": "Its process is gone."}
    ask(f"{prefect_server}/flow_runs/{crashed['id']}/set_state", {"state": state, "force": True})
    told = crosscheck.run("nights", "status").out
    assert f"{name} ended without a result: Crashed. Its process is gone." in told
    assert f"crosscheck nights run {name}" in told
    for words, begins in (((), None), ((name,), name)):
        started = crosscheck.run("nights", "run", *words, "--json").json
        wanted = {"flow_runs": {"id": {"any_": [started["flow_run"]]}}}
        (begun,) = ask(f"{prefect_server}/flow_runs/filter", wanted)
        assert begun["parameters"].get("night") == begins and started["flow_run"] in started["page"]
    unknown = crosscheck.run("nights", "run", "latest")
    unknown.assert_refused('no nightly run "latest" to continue')
    variables = {name: each["job_variables"] for name, each in found.items()}
    assert variables["rerun"] == {"env": {DEPLOYED_HOME: str(crosscheck.home)}}
    path = str(tmp_path / "mine.yaml")
    Path(path).write_text("name: ours\nmodel: m\nbase_url: http://127.0.0.1:1/v1\n", encoding="utf-8")

    def deployed(old: str, new: str) -> Ran:
        return crosscheck.run("nights", "deploy", str(written(tmp_path, TEMPLATE.replace(old, new))))

    assert deployed("[offline]", "[mine.yaml]").code == 0
    found = {each["name"]: each for each in ask(f"{prefect_server}/deployments/filter", {})}
    assert found["nightly"]["parameters"]["matrix"]["backbones"] == [path]
    form = found["evaluate"]["parameter_openapi_schema"]["definitions"]["EvaluationForm"]["properties"]
    assert {path, "offline"} <= set(form["backbone"]["else"]["enum"])
    for backbone in (path, "/else/where.yaml", "offlin"):
        chosen = {"parameters": {"evaluation": {"backbone": backbone}}, "state": {"type": "SCHEDULED"}}
        url = f"{prefect_server}/deployments/{found['evaluate']['id']}/create_flow_run"
        assert httpx.post(url, json=chosen).is_success == backbone.startswith("/")
    deployed("30 1", "99 1").assert_refused("no cron expression")
    deployed("30 1", "0 30 1").assert_refused("no cron expression")  # a sixth field would be of seconds
    deployed("30 1 * * *", "0 0 30 2 *").assert_refused('schedule: "0 0 30 2 *" never occurs')
    deployed("rsl-sql", "rsl-sq").assert_refused("rsl-sq")
    with refusing_server() as address:
        crosscheck.environment = {**crosscheck.environment, "PREFECT_API_URL": f"{address}/api"}
        for command in (("nights", "status"), ("evaluate", "--limit", "1", "--pipeline", "zero-shot")):
            refused = crosscheck.run(*command)
            refused.assert_refused("PREFECT_API_AUTH_STRING")
            assert "Correct PREFECT_API_URL" not in refused.err
    crosscheck.environment = {**crosscheck.environment, "PREFECT_API_URL": "http://127.0.0.1:1/api"}
    crosscheck.run("nights", "status").assert_refused("Prefect's server does not answer")


@pytest.mark.parametrize(("change", "message"), [
    ('baselines: {"demo | offline | rsl-sql": 20261121-020000-3f9a1c}', 'There is no run "20261121-020000-3f9a1c"'),
    ('questions: "99999"', "no question has the id 99999"),
    ('questions: "@no-such.txt"', "cannot be read"),
])  # fmt: skip
def test_what_is_not_in_the_folder_of_the_nights_is_refused_when_they_are_deployed(
    change: str, message: str, run_here: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_server(monkeypatch)
    file = written(tmp_path, TEMPLATE.replace("  # limit", f"  {change}\n  # limit"))
    run_here("nights", "deploy", str(file)).assert_refused(message)


def use_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands take Prefect's server for one of the working folder."""
    running = folder_use.Addresses(prefect_port=1, mlflow_port=2, pid=os.getpid())
    monkeypatch.setenv("PREFECT_API_URL", running.prefect_api)
    monkeypatch.setattr(folder_use, "find_running_servers", lambda home: running)


def test_data_that_changed_since_the_baseline_are_refused_when_nights_are_deployed(
    run_here: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has changed is in test_nightly."""

    def changed(names: tuple[str, str, str], night: str, *_: object) -> None:
        raise DataError(f"changed since {night or 'any night'}: {' | '.join(names)}")

    use_own_server(monkeypatch)
    monkeypatch.setattr(night_flow, "check_data", changed)
    refused = run_here("nights", "deploy", str(written(tmp_path, TEMPLATE)))
    refused.assert_refused("changed since any night: demo | offline | few-shot")


@pytest.mark.parametrize(("change", "message"), [
    ('finish_by: "25:99"', '"25:99" is neither a time of day, 07:00, nor an ISO 8601 time'),
    ('finish_by: "07:00"', "send their requests in the standard tier already"),
    ("  overrides: [pipeline.vots=2]", "vots"),
    ('  baselines: {"demo | offline | no-such": 20261121-020000-3f9a1c}', "which the matrix does not contain"),
])  # fmt: skip
def test_what_a_night_would_refuse_is_refused_when_it_is_deployed(
    change: str, message: str, run_here: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    of_matrix = TEMPLATE.replace("  # limit", f"{change}\n  # limit")
    file = written(tmp_path, of_matrix if change.startswith(" ") else f"{TEMPLATE}{change}\n")
    run_here("nights", "deploy", str(file)).assert_refused(message)
