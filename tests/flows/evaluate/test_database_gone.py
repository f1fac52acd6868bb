"""Databases that vanish in the middle of a run and come back, as a network mount does, or change meanwhile."""

import json
from pathlib import Path

import pytest

from tasks.results.warehouse.runs import Warehouse
from tests.support import postgres
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.own_benchmark import OwnBenchmark

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("pipeline", "after"), [("rsl-sql", 8), ("dac", 0), ("sea-sql", 3)])
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
        *("--pipeline", pipeline, "--backbone", backbone_file, "--limit", "6", "--json"),
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


@pytest.fixture
def apart(crosscheck: CommandLine) -> CommandLine:
    """Commands in processes of their own: one process asks a server once for the digest of its data."""
    return CommandLine(crosscheck.home, crosscheck.environment)


def test_a_database_that_changes_on_its_server_is_said_in_the_summary_and_by_compare(
    apart: CommandLine, tmp_path: Path, backbone_file: str, model: FakeOpenAI
) -> None:
    with postgres.new_reader(
        "CREATE TABLE item (name text, price real)", "INSERT INTO item VALUES ('cup', 2.5)"
    ) as url:
        (tmp_path / "dev.json").write_text(
            json.dumps(
                [{"question_id": 1, "db_id": "shop", "question": "What?", "SQL": "SELECT name FROM item"}]
            )
        )
        (tmp_path / "shop.yaml").write_text(
            f'layout: bird\nfolder: {tmp_path}\ntables: ""\nrevision: "1"\nrule: bird\ndialect: postgres\nurl: {url}\n'
        )

        def evaluated() -> Ran:
            return apart.run(
                "evaluate", "--benchmark", str(tmp_path / "shop.yaml"), "--backbone", backbone_file,
                "--pipeline", "zero-shot",
            )  # fmt: skip

        owner = f"{postgres.SERVER}{url[url.rindex('/') :]}"

        written = iter(["INSERT INTO item VALUES ('pot', 12)"])

        def answer(_: object) -> str:
            for statement in written:
                postgres.execute(owner, statement)
            return '{"sql": "SELECT name FROM item"}'

        model.answer = answer
        first, second = evaluated(), evaluated()
    assert first.code == 0, first.err
    assert "1 database changed on the server during this run: shop" in first.out + first.err
    assert second.code == 0 and "changed on the server" not in second.out + second.err, second.err
    said = apart.run("compare", *[first.out.split("run ")[1].split()[0]] * 2)
    assert "Databases changed on the server while A was running: shop" in " ".join(
        (said.out + said.err).split()
    )
