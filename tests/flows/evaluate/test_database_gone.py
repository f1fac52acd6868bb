"""A folder of databases that vanishes in the middle of a run and comes back, as a network mount does."""

from pathlib import Path

import pytest

from tasks.results.warehouse.runs import Warehouse
from tests.support.command_line import CommandLine
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.own_benchmark import OwnBenchmark

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("pipeline", "after"), [("rsl-sql", 8), ("dac", 0), ("sea-sql", 8)])
def test_databases_that_vanish_fail_questions_retryably_and_the_same_command_reaches_the_true_score(
    crosscheck: CommandLine,
    own_benchmark: OwnBenchmark,
    model: FakeOpenAI,
    backbone_file: str,
    tmp_path: Path,
    pipeline: str,
    after: int,
) -> None:
    words = (
        *("evaluate", "--benchmark", str(own_benchmark.file), "--data", str(own_benchmark.folder.parent)),
        *("--pipeline", pipeline, "--backbone", backbone_file, "--json"),
    )
    true = crosscheck.run(*words, "--home", str(tmp_path / "undisturbed"))
    assert true.code == 0, true.err
    paid = len(model.requests)

    folder, aside = own_benchmark.folder / "dev_databases", own_benchmark.folder / "aside"
    ordinary, replies = model.answer, 0

    def answer(body: Body) -> str:
        nonlocal replies
        replies += 1
        if replies > after and folder.exists():
            folder.rename(aside)
        return ordinary(body)

    model.answer = answer
    disturbed = crosscheck.run(*words)
    model.answer = ordinary
    assert aside.exists(), "the folder was moved"
    aside.rename(folder)
    assert disturbed.code == 3, disturbed.out + disturbed.err
    assert "Traceback" not in disturbed.err
    if disturbed.out:
        assert disturbed.json["gold_faults"] == {}, "no gold is at fault"
        for row in Warehouse(crosscheck.home / "warehouse.duckdb").read_run(disturbed.json["run_id"]).rows:
            failure = row.outcome.failure
            assert failure is None or (failure.kind == "database_unavailable" and failure.retryable)
            assert all("does not exist" not in str(record.value) for record in row.outcome.stages)

    again = crosscheck.run(*words)
    assert again.code == 0, again.err
    assert again.json["ex"] == true.json["ex"]
    assert len(model.requests) == 2 * paid, "each request was paid once by each of the two homes"
