"""The files of `deployments/`: job templates that a real server takes, and the unit that starts `crosscheck up`."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import ROOT, prefect
from tests.support.compose import read_compose
from tests.support.in_process import run
from tests.support.schedule import ask, send

POOLS = ROOT / "deployments" / "pools"
KINDS = ("docker", "kubernetes")


def template(kind: str) -> dict[str, Any]:
    return json.loads((POOLS / f"{kind}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_variable_is_used_and_every_placeholder_is_a_variable(kind: str) -> None:
    used = set(re.findall(r"{{ (\w+) }}", json.dumps(template(kind)["job_configuration"])))
    assert used == set(template(kind)["variables"]["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_run_finds_the_stores_where_a_worker_of_the_compose_file_does(kind: str) -> None:
    compose = read_compose(ROOT / "deployments" / "compose.yaml", {"POSTGRES_PASSWORD": "not-a-secret"})
    worker = compose["services"]["worker"]["environment"]
    environment = template(kind)["variables"]["properties"]["env"]["default"]
    where = {name for name in worker if name.startswith("CROSSCHECK_") or name.endswith(("_URL", "_URI"))}
    assert {name: environment.get(name) for name in where} == {name: worker[name] for name in where}
    assert "{{ prefect.blocks.secret." in environment.get("PGPASSWORD", "{{ prefect.blocks.secret.")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_is_made_from_it_and_a_deployment_names_it(
    kind: str, prefect_server: str, tmp_path: Path
) -> None:
    ours = {"PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(tmp_path), "PWD": "/crosscheck"}

    def run(*words: str) -> None:
        ran = prefect("--no-prompt", *words, environment={**os.environ, **ours})
        assert ran.code == 0, ran.out + ran.err

    file = f"deployments/pools/{kind}.json"
    run("work-pool", "create", f"in-{kind}", "--type", kind, "--base-job-template", file)
    (pool,) = ask(f"{prefect_server}/work_pools/filter", {"work_pools": {"name": {"any_": [f"in-{kind}"]}}})
    assert (pool["type"], pool["base_job_template"]) == (kind, template(kind))
    run(
        "deploy", "flows/evaluate/deployment.py:evaluate_by_name", "--prefect-file", "deployments/prefect.yaml",
        "--name", f"in-{kind}", "--pool", f"in-{kind}", "--job-variable", "image=crosscheck:2",
    )  # fmt: skip
    (found,) = ask(
        f"{prefect_server}/deployments/filter", {"deployments": {"name": {"any_": [f"in-{kind}"]}}}
    )
    send("DELETE", f"{prefect_server}/deployments/{found['id']}")
    assert found["work_pool_name"] == f"in-{kind}"
    assert found["job_variables"] == {"image": "crosscheck:2"}
    assert found["pull_steps"] == [
        {"prefect.deployments.steps.set_working_directory": {"directory": "/crosscheck"}}
    ]


FILE = ROOT / "deployments" / "crosscheck.service"


def test_it_runs_a_command_that_exists_and_restarts_it() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(FILE.read_text(encoding="utf-8"))
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/.venv/bin/crosscheck")
    assert run(*words, "--help").code == 0
    assert unit["Service"]["Restart"] == "on-failure" and unit["Install"]["WantedBy"] == "default.target"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd to check the file with")
def test_systemd_finds_no_mistake_in_it(tmp_path: Path) -> None:
    copy = tmp_path / "crosscheck.service"
    text = FILE.read_text(encoding="utf-8").replace("%h/crosscheck/.venv/bin/crosscheck", sys.executable)
    copy.write_text(text, encoding="utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(copy)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, "")
