"""`crosscheck nights`: the user's file, and its deployment to a real server of Prefect."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.utilities.callables import parameter_schema

from flows.deployed.forms import Cleaning, EvaluationForm, Matrix, RerunForm
from flows.evaluation.deployment import evaluate_by_name
from flows.nights.flow import nightly
from flows.nights.nights_file import TEMPLATE, NightsFile, read_nights
from flows.nights.schedule_command import NAME
from flows.rerun.deployment import rerun_by_name
from flows.servers.services import POOL
from tasks.core.errors import ConfigurationError
from tasks.settings.evaluation import Keep
from tests.support.command_line import CommandLine, Ran
from tests.support.schedule import ask


def written(folder: Path, text: str) -> Path:
    file = folder / NAME
    file.write_text(text, encoding="utf-8")
    return file


def test_the_file_to_begin_with_is_valid_and_holds_only_parameters_of_the_flow(tmp_path: Path) -> None:
    nights = read_nights(written(tmp_path, TEMPLATE))
    assert nights.schedule == "30 1 * * *" and nights.matrix.pipelines == ["few-shot", "rsl-sql"]
    assert set(nights.parameters) == {"matrix", "ask_again", "gate", "keep"}
    commented = TEMPLATE.replace("# budget_usd", "budget_usd").replace("# finish_by", "finish_by")
    assert read_nights(written(tmp_path, commented)).budget_usd == 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("matrx: {}", 'there is no key "matrx". Did you mean "matrix"?'),
        ("timezone: Europe/Brlin", '"Europe/Brlin" is no time zone'),
        ("budget_usd: -1", "greater than 0"),
        ("schedule: 5", "valid string"),
        ("schedule: [", "is not YAML"),
    ],
)
def test_wrong_files_are_named_with_the_key(change: str, message: str, tmp_path: Path) -> None:
    key = change.partition(":")[0]
    lines = [line for line in TEMPLATE.splitlines() if not line.startswith(f"{key}:")]
    file = written(tmp_path, "\n".join([*lines, change]))
    with pytest.raises(ConfigurationError, match=r"nights\.yaml") as caught:
        read_nights(file)
    assert message in str(caught.value)


def test_a_missing_file_and_an_existing_one_are_said(run_here: Callable[..., Ran], tmp_path: Path) -> None:
    missing = run_here("nights", "deploy", str(tmp_path / "none.yaml"))
    assert missing.code == 2 and "`crosscheck nights init` writes one" in missing.err
    file = tmp_path / "mine.yaml"
    assert run_here("nights", "init", str(file)).code == 0
    again = run_here("nights", "init", str(file))
    assert again.code == 2 and "exists" in again.err
    assert NightsFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_forms_begin_with_what_is_chosen_and_show_no_null() -> None:
    for form, first in ((Matrix, "benchmarks"), (EvaluationForm, "benchmark"), (RerunForm, "run")):
        properties = form.model_json_schema()["properties"]
        assert next(iter(properties)) == first and list(properties)[-3:] == ["name", "tags", "note"]
        assert not [name for name, each in properties.items() if "null" in str(each)]
    assert RerunForm.model_json_schema()["properties"]["only"]["enum"][0] == "errors"


def fields_of(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of a schema, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for part in schema.values():
            yield from fields_of(part)


@pytest.mark.parametrize("flow", [nightly, evaluate_by_name, rerun_by_name], ids=lambda flow: flow.name)
def test_no_field_of_a_deployed_form_may_be_null_or_is_by_default(flow: Flow[..., Any]) -> None:
    fields = list(fields_of(parameter_schema(flow).model_dump()))
    assert len(fields) > 8
    for name, field in fields:
        assert {"type": "null"} not in field.get("anyOf", []), f'{name} shows: Property is type "None"'
        assert field.get("default", "") is not None, f"Prefect refuses the untouched field {name}"


def test_a_night_that_is_started_from_the_form_cleans_only_where_an_age_is_given() -> None:
    assert Cleaning().keep is None
    assert Cleaning(age="30d", runs=3).keep == Keep(age="30d", runs=3)
    with pytest.raises(ValueError, match="write a number and d, h or m"):
        Cleaning(age="soon").keep  # noqa: B018  # the property checks it


@pytest.mark.slow
def test_a_file_is_deployed_and_its_schedule_replaced(
    crosscheck: CommandLine, prefect_server: str, tmp_path: Path
) -> None:
    crosscheck.environment = {**crosscheck.environment, "PREFECT_API_URL": prefect_server}
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
    assert {"nightly", "evaluate", "rerun", "shard"} <= set(found)
    assert (
        found["nightly"]["work_pool_name"] == POOL
        and found["nightly"]["global_concurrency_limit"]["limit"] == 1
    )
    assert found["nightly"]["parameters"]["matrix"]["pipelines"] == ["few-shot", "rsl-sql"]
    wrong = written(tmp_path, TEMPLATE.replace("30 1", "99 1"))
    refused = crosscheck.run("nights", "deploy", str(wrong))
    assert refused.code == 2 and "no cron expression" in refused.err
    unknown = written(tmp_path, TEMPLATE.replace("rsl-sql", "rsl-sq"))
    assert "rsl-sq" in crosscheck.run("nights", "deploy", str(unknown)).err
    crosscheck.environment = {**crosscheck.environment, "PREFECT_API_URL": "http://127.0.0.1:1/api"}
    away = crosscheck.run("nights", "status")
    assert away.code == 2 and "Prefect's server does not answer" in away.err and "Traceback" not in away.err
