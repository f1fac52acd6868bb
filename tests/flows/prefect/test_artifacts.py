"""The page of a flow run, on a real Prefect server: the score first, the commands, and the form of a re-run."""

import json
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from flows.prefect.artifacts import show_result
from flows.prefect.schedule import deploy, deploy_shards
from flows.prefect.up import POOL
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.prefect_home import Served, in_flow
from tests.support.schedule import ask
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.night_samples import keep, unanswered

pytestmark = pytest.mark.slow


def record_of(home: Home, lost: int) -> RunRecord:
    run = two_runs(1, 2, 4)[0]
    for place in range(lost):
        run = unanswered(run, place, "The endpoint did not answer.")
    warehouse = Warehouse(home.warehouse)
    (kept,) = keep(warehouse, [run])
    return warehouse.read_run(kept.run_id)


async def shown(record: RunRecord, api: str) -> str:
    """Show a result in a flow, and return its artifact."""

    async def work() -> None:
        await show_result(record)

    await in_flow(work)
    artifacts = ask(f"{api}/artifacts/filter", {"artifacts": {"key": {"any_": ["evaluation"]}}})
    latest = max(artifacts, key=lambda artifact: artifact["created"])
    return str(latest["data"])


async def test_a_result_begins_with_the_score_and_the_commands(
    prefect_home: Home, prefect_api: Served
) -> None:
    record = record_of(prefect_home, 0)
    text = await shown(record, prefect_api.url)
    assert text.startswith(f"# {record.in_words}\n\n```\ncrosscheck show {record.run_id} ")
    assert "](" not in text.partition("## ")[0]


async def test_the_form_of_a_re_run_has_the_run_and_can_be_submitted(
    prefect_home: Home, prefect_api: Served
) -> None:
    record = record_of(prefect_home, 1)
    await deploy_shards({})  # creates the work pool, too
    await deploy("rerun", POOL, {}, schedules=[])
    text = await shown(record, prefect_api.url)
    assert text.startswith("# EX ") and "; 1 question without an answer\n" in text
    address = text.partition("[Ask the questions without an answer again](")[2].partition(")")[0]
    (parameters,) = parse_qs(urlsplit(address).query)["parameters"]
    filled = json.loads(parameters)
    assert filled["choice"]["run"] == record.run_id and filled["choice"]["fresh"] is False
    deployment = urlsplit(address).path.split("/")[-2]
    submitted = httpx.post(
        f"{prefect_api.url}/deployments/{deployment}/create_flow_run",
        json={"parameters": filled, "state": {"type": "SCHEDULED"}},
    )
    assert submitted.is_success, submitted.text
    assert submitted.json()["parameters"] == filled
