"""`deployments/prefect.yaml` as its first lines say: deployed, shown as forms, run by a worker; all of it real."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import yaml

from flows.prefect.up import POOL, WORKER
from tasks.core.described import field_docstrings
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import EvaluationNames
from tasks.settings.home import Home
from tests.support.command_line import ROOT, prefect, stop, wait_until
from tests.support.kept_results import kept_results
from tests.support.schedule import ask, send

FILE = ROOT / "deployments" / "prefect.yaml"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(
    prefect_server: str, built_demo: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    home = tmp_path_factory.mktemp("deployed") / "home"
    shutil.copytree(built_demo, home)
    ours = {
        "PREFECT_API_URL": prefect_server,
        "PREFECT_HOME": str(home / "prefect"),
        "CROSSCHECK_HOME": str(home),
        "CROSSCHECK_STAGES": (home.parent / "stages").as_uri(),
    }
    return {**os.environ, **WORKER, **ours, "PWD": str(ROOT)}


@pytest.fixture(scope="module")
def deployed(environment: dict[str, str]) -> dict[str, dict]:
    """What the command of the file's first lines deploys, by name."""
    api = environment["PREFECT_API_URL"]
    with suppress(httpx.HTTPStatusError):  # another test may have made it
        ask(f"{api}/work_pools/", {"name": POOL, "type": "process"})
    lines = FILE.read_text(encoding="utf-8").splitlines()
    (command,) = [line for line in lines if "prefect deploy --all" in line]
    ran = prefect(*command.removeprefix("#").split()[1:], environment=environment)
    assert ran.code == 0, ran.out + ran.err
    return {found["name"]: found for found in ask(f"{api}/deployments/filter", {})}


@pytest.fixture(scope="module")
def worker(environment: dict[str, str], deployed: dict[str, dict]) -> Iterator[None]:
    """A worker; what other tests of this server have left for one is deleted before."""
    api = environment["PREFECT_API_URL"]
    waiting = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING"]}}}}
    for left in ask(f"{api}/flow_runs/filter", waiting):
        send("DELETE", f"{api}/flow_runs/{left['id']}")
    with (Path(environment["CROSSCHECK_HOME"]) / "worker.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        yield
        stop(process)


def run(deployment: dict, parameters: dict, environment: dict[str, str]) -> dict:
    """Have the worker run a deployment, and return the flow run that came of it."""
    api = environment["PREFECT_API_URL"]
    id_ = ask(f"{api}/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters})["id"]
    found: dict = {}

    def ended() -> bool:
        (found["run"],) = ask(f"{api}/flow_runs/filter", {"flow_runs": {"id": {"any_": [id_]}}})
        return found["run"]["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

    wait_until(ended, pause=0.5)
    log = Path(environment["CROSSCHECK_HOME"]) / "worker.log"
    assert found["run"]["state_type"] == "COMPLETED", log.read_text(encoding="utf-8")
    return found["run"]


def test_every_deployment_of_the_file_goes_to_the_pool_of_crosscheck_up_and_the_night_has_a_time_and_a_zone(
    deployed: dict,
) -> None:
    written = yaml.safe_load(FILE.read_text(encoding="utf-8"))["deployments"]
    for entry in written:  # other tests of this server may have deployed more
        assert deployed[entry["name"]]["work_pool_name"] == POOL
        assert deployed[entry["name"]]["pull_steps"] == [
            {"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}
        ]
    (schedule,) = deployed["nightly"]["schedules"]
    assert schedule["active"]
    assert schedule["schedule"]["cron"] == "30 1 * * *"
    assert schedule["schedule"]["timezone"] == "Europe/Berlin"
    assert deployed["evaluate"]["schedules"] == []


def test_the_forms_offer_names_ranges_and_explanations_and_another_name_is_refused_before_anything_runs(
    deployed: dict, environment: dict[str, str]
) -> None:
    forms = deployed["evaluate"]["parameter_openapi_schema"]["definitions"]
    evaluation = forms["EvaluationForm"]["properties"]
    backbones = sorted(path.stem for path in (ROOT / "conf" / "backbones").glob("*.yaml"))
    assert sorted(evaluation["backbone"]["else"]["enum"]) == backbones
    assert evaluation["benchmark"]["description"] == field_docstrings(EvaluationNames)["benchmark"]
    gate = deployed["nightly"]["parameter_openapi_schema"]["definitions"]["Gate"]["properties"]
    assert (gate["threshold"]["minimum"], gate["threshold"]["maximum"]) == (0, 100)
    with pytest.raises(httpx.HTTPStatusError) as refused:
        run(deployed["evaluate"], {"evaluation": {"backbone": "nobody"}}, environment)
    assert refused.value.response.status_code in (409, 422)
    assert "'nobody' is not one of ['anthropic', " in refused.value.response.text


def test_a_worker_evaluates_by_names_and_persists_stages_where_the_variable_says(
    deployed: dict, environment: dict[str, str], worker: None
) -> None:
    ended = run(deployed["evaluate"], {"evaluation": {"pipeline": "zero-shot", "limit": 3}}, environment)
    assert ended["state"]["message"].startswith("EX ")
    of_run = {"flow_runs": {"id": {"any_": [ended["id"]]}}}
    tasks = ask(f"{environment['PREFECT_API_URL']}/task_runs/filter", of_run)
    assert [task["name"] for task in tasks if task["name"].startswith("preliminary_sql")], (
        "not of an inner flow"
    )
    artifacts = ask(f"{environment['PREFECT_API_URL']}/artifacts/filter", of_run)
    assert [each["key"] for each in artifacts if each["type"] == "markdown"] == ["evaluation"]
    home = Path(environment["CROSSCHECK_HOME"])
    assert len(list((home.parent / "stages").glob("preliminary_sql/*"))) == 3
    assert kept_results(Home(home)) == {}
    warehouse = Warehouse(home / "warehouse.duckdb")
    assert [stored.status for stored in warehouse.runs()] == ["complete"]
    again = run(deployed["rerun"], {"choice": {"only": "wrong", "fresh": True}}, environment)
    assert again["state"]["message"].startswith("EX ")
    assert len(warehouse.runs()) == 2
