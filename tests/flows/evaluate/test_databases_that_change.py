"""Databases of servers that change while a run goes on."""

import json
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import FakeOpenAI

pytestmark = pytest.mark.slow


@pytest.fixture
def crosscheck(crosscheck: CommandLine) -> CommandLine:
    """Commands in processes of their own: one process asks a server once for the digest of its data."""
    return CommandLine(crosscheck.home, crosscheck.environment)


def test_a_database_that_changes_on_its_server_is_said_in_the_summary_and_by_compare(
    crosscheck: CommandLine, tmp_path: Path, backbone_file: str, model: FakeOpenAI
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
            return crosscheck.run(
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
    said = crosscheck.run("compare", *[first.out.split("run ")[1].split()[0]] * 2)
    assert "Databases changed on the server while A was running: shop" in " ".join(
        (said.out + said.err).split()
    )
