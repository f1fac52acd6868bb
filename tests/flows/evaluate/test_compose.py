"""`deployments/compose.yaml`: what it says, and its services run as it says, on a real PostgreSQL."""

import importlib.metadata
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flows.prefect import automations
from flows.prefect.artifacts import prefect_page
from flows.prefect.automations import WEBHOOK
from flows.prefect.settings import SERVER
from flows.prefect.up import POOL, WORKER
from tasks.results.mlflow import store
from tasks.settings.home import Home
from tests.support.command_line import ROOT, free_ports
from tests.support.compose import Composed, read_compose
from tests.support.postgres import execute, new_database
from tests.support.schedule import OFTEN, ask, fired

FILE = ROOT / "deployments" / "compose.yaml"
DOCKERFILE = (ROOT / "deployments" / "Dockerfile").read_text(encoding="utf-8")
PASSWORD = "not-a-secret"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file, with nothing set but the password."""
    return read_compose(FILE, {"POSTGRES_PASSWORD": PASSWORD})


def ours(compose: dict[str, Any]) -> dict[str, Any]:
    """The services that run our image."""
    return {name: service for name, service in compose["services"].items() if name != "postgres"}


class TestTheFile:
    def test_every_service_of_our_image_runs_a_program_that_is_in_it(self, compose: dict[str, Any]) -> None:
        installed = {script.name for script in importlib.metadata.entry_points(group="console_scripts")}
        for name, service in ours(compose).items():
            assert service["image"] == "crosscheck", name
            assert service["command"][0] in installed | {"sh", "python"}, name

    def test_every_variable_is_one_that_somebody_reads(self, compose: dict[str, Any]) -> None:
        from prefect.settings.legacy import _get_valid_setting_names
        from prefect.settings.models.root import Settings

        sources = [path for top in ("flows", "tasks") for path in (ROOT / top).rglob("*.py")]
        mlflow = Path(importlib.metadata.distribution("mlflow").locate_file("mlflow"))
        sources += [
            mlflow / name for name in ("environment_variables.py", "utils/cli_args.py", "cli/__init__.py")
        ]
        texts = "\n".join(path.read_text(encoding="utf-8") for path in sources)
        read = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', texts))
        read |= _get_valid_setting_names(Settings) | {"PGPASSWORD", "PWD"}
        for name, service in ours(compose).items():
            assert set(service["environment"]) - read == set(), name

    def test_the_servers_and_the_worker_are_tuned_as_those_of_crosscheck_up(
        self, compose: dict[str, Any]
    ) -> None:
        services = compose["services"]
        assert SERVER.items() <= services["prefect"]["environment"].items()
        assert store.SERVER.items() <= services["mlflow"]["environment"].items()
        assert WORKER.items() <= services["worker"]["environment"].items()
        words = services["worker"]["command"]
        assert words[words.index("--pool") + 1] == POOL

    def test_the_password_comes_from_the_environment_and_stands_in_no_address_or_command(
        self, compose: dict[str, Any]
    ) -> None:
        with pytest.raises(AssertionError, match="demands POSTGRES_PASSWORD"):
            read_compose(FILE, {})
        found = re.findall(r'"(\w+)": "([^"]*)"', json.dumps(compose))
        named = {(name, value) for name, value in found if PASSWORD in value}
        assert named == {("PGPASSWORD", PASSWORD), ("POSTGRES_PASSWORD", PASSWORD)}
        assert json.dumps(compose).count(PASSWORD) == sum(PASSWORD in value for _, value in found)
        assert not re.search(r"://[^\s@/]+:[^\s@/]+@", FILE.read_text(encoding="utf-8"))

    def test_only_the_two_servers_can_be_reached_and_workers_can_be_many_and_cannot_change_the_benchmarks(
        self, compose: dict[str, Any]
    ) -> None:
        ports = {name: service.get("ports", []) for name, service in compose["services"].items()}
        assert {name: found for name, found in ports.items() if found} == {
            "prefect": ["127.0.0.1:4200:4200"],
            "mlflow": ["127.0.0.1:5000:5000"],
        }
        worker = compose["services"]["worker"]
        assert not {"container_name", "hostname", "ports"} & set(worker)
        assert "benchmarks:/data:ro" in worker["volumes"]
        assert worker["environment"]["CROSSCHECK_DATA"] == "/data"
        elsewhere = read_compose(FILE, {"POSTGRES_PASSWORD": PASSWORD, "CROSSCHECK_DATA": "/srv/text2sql"})
        assert "/srv/text2sql:/data:ro" in elsewhere["services"]["worker"]["volumes"]

    def test_links_name_the_servers_as_people_know_them_outside_of_the_network(
        self, compose: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in compose["services"]["worker"]["environment"].items():
            monkeypatch.setenv(name, value)
        assert prefect_page("7") == "http://localhost:4200/runs/flow-run/7"
        found = store.ui_url(store.find_store(Home(tmp_path)), "1", "2")
        assert found.startswith("http://localhost:5000/#/experiments/1/runs/2?")

    def test_each_store_has_a_database_of_its_own_and_what_is_written_lies_on_volumes_that_the_image_s_user_owns(
        self, compose: dict[str, Any]
    ) -> None:
        named = set(re.findall(r"@postgres:5432/(\w+)", json.dumps(compose)))
        made = set(re.findall(r"CREATE DATABASE (\w+);", compose["configs"]["databases"]["content"]))
        assert named == made | {compose["services"]["postgres"]["environment"]["POSTGRES_USER"]}
        (owned,) = re.findall(r"install .*?--group crosscheck (.+)", DOCKERFILE)
        assert "\nUSER crosscheck\n" in DOCKERFILE
        for name, place in (("worker", "CROSSCHECK_HOME"), ("mlflow", "MLFLOW_ARTIFACTS_DESTINATION")):
            folder = compose["services"][name]["environment"][place]
            assert folder in owned.split()
            assert any(volume.endswith(f":{folder}") for volume in compose["services"][name]["volumes"])

    def test_the_image_gets_what_it_runs_and_nothing_else(self) -> None:
        sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        assert sent[0] == "*"
        assert {"!conf", "!flows", "!tasks", "!deployments/prefect.yaml"} <= set(sent)
        assert not any("env" in line or "data" in line for line in sent)

    def test_docker_compose_itself_takes_it(self) -> None:
        if (
            not shutil.which("docker")
            or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
        ):
            pytest.skip("no docker compose")
        checked = subprocess.run(
            ["docker", "compose", "--file", str(FILE), "config", "--quiet"],
            env={"POSTGRES_PASSWORD": PASSWORD, "PATH": "/usr/bin:/usr/local/bin"}, capture_output=True, text=True,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stderr


@pytest.fixture(scope="module")
def team(built_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    """All services of the file, started in its order, on databases of the test's own."""
    compose = read_compose(FILE, {"POSTGRES_PASSWORD": PASSWORD, WEBHOOK: "http://127.0.0.1:9/hook"})
    folder = tmp_path_factory.mktemp("team")
    shutil.copytree(built_demo, folder / "home")
    prefect, mlflow, health = map(str, free_ports(3))
    instead = {
        "http://prefect:4200": f"http://127.0.0.1:{prefect}", "http://mlflow:5000": f"http://127.0.0.1:{mlflow}",
        "4200": prefect, "5000": mlflow, "8080": health, "0.0.0.0": "127.0.0.1",
        "/var/lib/crosscheck": str(folder / "home"), "/var/lib/mlflow": str(folder / "artifacts"),
        "/crosscheck": str(ROOT), "/data": str(folder / "data"),
    }  # fmt: skip
    with ExitStack() as stack:
        for name in ("prefect", "mlflow", "crosscheck"):
            database = stack.enter_context(new_database()).removeprefix("postgresql:")
            instead[f"//crosscheck@postgres:5432/{name}"] = database
        further = {"PREFECT_HOME": str(folder / "prefect"), **OFTEN}
        composed = Composed(ours(compose), instead, further, logs=folder, cwd=ROOT)
        stack.callback(composed.down)
        composed.up("worker")
        yield composed


PREFECT, MLFLOW = "PREFECT_SERVER_DATABASE_CONNECTION_URL", "MLFLOW_BACKEND_STORE_URI"


def query(team: Composed, variable: str, sql: str) -> list[tuple[object, ...]]:
    """Read from the database that a variable of a server names."""
    address = team.environment("prefect" if variable == PREFECT else "mlflow")[variable]
    return execute(re.sub(r"^postgresql\+\w+", "postgresql", address), sql)


@pytest.mark.slow
class TestATeam:
    def test_the_nights_are_deployed_to_the_pool_of_the_worker_and_the_server_knows_the_webhook(
        self, team: Composed
    ) -> None:
        assert query(team, PREFECT, "SELECT name, type FROM work_pool") == [(POOL, "process")]
        deployed = {name for (name,) in query(team, PREFECT, "SELECT name FROM deployment")}
        assert {"nightly", "evaluate", "rerun"} <= deployed
        assert (automations.NAME,) in query(team, PREFECT, "SELECT name FROM automation")

    def test_mlflow_answers_the_workers_who_know_it_by_its_name_in_the_network(self, team: Composed) -> None:
        url = team.environment("worker")["MLFLOW_TRACKING_URI"]
        host = f"mlflow:{url.rpartition(':')[2]}"
        found = ask(f"{url}/api/2.0/mlflow/experiments/search?max_results=1", host=host)
        assert found["experiments"]

    def test_a_night_fires_by_its_schedule_and_its_run_is_in_mlflow(self, team: Composed) -> None:
        api = team.environment("worker")["PREFECT_API_URL"]
        found = fired(api, "nightly/nightly", {"matrix": {"pipelines": ["zero-shot"], "limit": 3}})
        assert found["state_type"] == "COMPLETED", team.log("worker")
        assert found["name"].startswith("night 20")
        ((name, status),) = query(team, MLFLOW, "SELECT name, status FROM runs")
        assert (str(name).split(" ", 2)[2], status) == ("offline | zero-shot", "FINISHED")
