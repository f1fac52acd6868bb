"""What deployed flows leave in the working folder about the flow runs of their process."""

import errno
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from flows.evaluate import deployment as evaluation_deployment
from flows.evaluate.deployment import as_prefect_state
from flows.evaluate.forms import EvaluationForm, RerunForm
from flows.matrix import matrix
from flows.matrix import nightly as nights
from flows.matrix.matrix import CellLimits
from flows.runtime.control import Control
from tasks.core.errors import CrosscheckError
from tasks.results.night import NightEntry
from tasks.settings.home import Home


async def of_a_night(home: Home) -> NightEntry:
    """Evaluate as the nightly flow does."""
    names = ("demo", "offline", "rsl-sql")
    given = (CellLimits(shares=[]), 1, names, EvaluationForm(), home, "tonight")
    return await nights._evaluate(*given, lambda prepared: None, ask_again=True)


class SeenError(CrosscheckError):
    """Ends the evaluation once the file was read."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A working folder in which deployed flows run, though no flow of Prefect runs."""
    found = Home(tmp_path / "home")
    found.path.mkdir()
    monkeypatch.setenv("CROSSCHECK_HOME", str(found.path))

    async def opened() -> Home:
        return found

    for module in (evaluation_deployment, nights):
        if hasattr(module, "open_home"):
            monkeypatch.setattr(module, "open_home", opened)
    return found


@pytest.fixture
def registered(home: Home, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The content of the process's file when the evaluation begins."""
    seen: dict[str, Any] = {}

    def begin(*arguments: Any) -> Any:
        control = next(each for each in arguments if isinstance(each, Control))

        async def flow(settings: Any, **more: Any) -> None:
            control.begin_flow_run("inner")
            (file,) = home.runs.iterdir()
            seen.update(json.loads(file.read_text(encoding="utf-8")))
            raise SeenError("read")

        return flow

    monkeypatch.setattr(evaluation_deployment, "evaluation", begin)
    monkeypatch.setattr(nights, "evaluation_flow", begin)
    monkeypatch.setattr(evaluation_deployment, "rerun", begin)
    monkeypatch.setattr(
        evaluation_deployment, "plan_rerun", lambda settings: type("Plan", (), {"again": {"1": 0}})
    )
    return seen


@pytest.mark.parametrize(("begin", "form"), [
    (evaluation_deployment._evaluate, EvaluationForm), (evaluation_deployment._rerun, RerunForm)
])  # fmt: skip
async def test_an_evaluation_or_rerun_started_by_hand_is_no_nightly_run(
    begin: Callable[[Any], Awaitable[Any]], form: type[Any], registered: dict[str, Any]
) -> None:
    with pytest.raises(SeenError):
        await begin(form())
    assert set(registered) == {"host", "pid", "flow_run"}


async def test_a_rerun_of_nothing_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = SimpleNamespace(run_id="r1")
    plan = SimpleNamespace(again={}, parent=parent, selection="errors")
    monkeypatch.setattr(evaluation_deployment, "plan_rerun", lambda settings: plan)
    state = await evaluation_deployment._rerun(RerunForm())
    assert state.is_completed() and state.message == "Run r1 has no question to repeat (errors)."


async def test_an_evaluation_of_the_nightly_flow_is_one(home: Home, registered: dict[str, Any]) -> None:
    entry = await of_a_night(home)
    assert entry.problem == "read"
    assert set(registered) == {"host", "pid", "nightly", "flow_run"}
    assert list(home.runs.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("odd"), CrosscheckError("odd")])
async def test_what_fails_before_an_evaluation_begins_is_its_problem_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(matrix, "prepare", fail)
    entry = await of_a_night(home)
    assert entry.problem == ("ValueError: odd" if isinstance(error, ValueError) else "odd")


async def test_a_disk_that_takes_nothing_is_a_failure_with_a_message() -> None:
    async def full() -> State[Any]:
        raise OSError(errno.ENOSPC, "No space left on device", "/home/nights/night.json")

    state = await as_prefect_state(full())
    assert (state.type.value, state.name) == ("FAILED", "Failed")
    assert str(state.message).startswith(
        "No space left on device (/home/nights/night.json). Check that the disk"
    )
