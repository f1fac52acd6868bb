"""The examples of CONTRIBUTING.md are run as they stand there, by the command lines that stand beside them."""

import csv
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.backbone.replies.json_text import Reading, reply_schema
from tasks.settings.backbone import REPLY_FORMATS
from tasks.settings.home import find_conf
from tasks.settings.load import load_pipeline_settings
from tasks.stages.replies import LinkReply, SqlReply
from tests.support.command_line import ROOT, CommandLine, Ran

pytestmark = pytest.mark.slow

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
FILES = {
    found[1]: content
    for language, content in BLOCKS
    if language in ("python", "yaml") and (found := re.match(r"# (\S+)\n", content))
}
COMMANDS = [content.strip() for language, content in BLOCKS if language == "console"]
LONGEST = 27
ONLY_THE_FLOW = 1
"""Task runs of an evaluation that restores every stage."""

Command = Callable[..., Ran]


@pytest.fixture
def run(crosscheck: CommandLine, built_demo: Path, tmp_path: Path) -> Command:
    """Run the command of CONTRIBUTING.md that contains a text, in a folder with all its files."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    shutil.copytree(built_demo, crosscheck.home, dirs_exist_ok=True)
    _fill_office(built_demo / "benchmarks" / "demo", folder / "office")
    crosscheck.cwd = folder

    def run(part: str, *more: str) -> Ran:
        (line,) = [command for command in COMMANDS if part in command]
        program, *words = shlex.split(line)
        assert program == "crosscheck"
        ran = crosscheck.run(*words, *more, "--json")
        assert ran.code == 0, ran.err
        return ran

    return run


def _fill_office(demo: Path, office: Path) -> None:
    """Write two questions on a database of the demo as the example's CSV file, and copy the database."""
    chosen = json.loads((demo / "dev.json").read_text(encoding="utf-8"))[:2]
    office.mkdir()
    with (office / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["database", "question", "evidence", "SQL"])
        writer.writeheader()
        for each in chosen:
            writer.writerow(
                {"database": each["db_id"], "question": each["question"], "evidence": "", "SQL": each["SQL"]}
            )
    for name in {each["db_id"] for each in chosen}:
        shutil.copytree(demo / "dev_databases" / name, office / "databases" / name)


def test_every_example_is_short_and_every_kind_has_one() -> None:
    assert set(FILES) == {
        "vote.py", "careful-vote.yaml", "simpler.py", "constant.py", "marked.py", "spreadsheet.py", "sql_length.py",
        "office.yaml",
    }  # fmt: skip
    for name, content in FILES.items():
        code = [
            line
            for line in content.splitlines()
            if line.strip() and not line.startswith(("from", "import", "#"))
        ]
        assert len(code) <= LONGEST, name
        imports = re.findall(r"^(?:from|import) (crosscheck|flows|tasks)\b", content, re.MULTILINE)
        assert imports == ["crosscheck"] * name.endswith(".py"), name
    assert len(COMMANDS) == 7


@pytest.mark.slow
def test_the_examples_are_typed(tmp_path: Path) -> None:
    untyped = {"marked.py"}  # its methods have no annotations
    paths = [tmp_path / name for name in FILES if name.endswith(".py") and name not in untyped]
    for path in paths:
        path.write_text(FILES[path.name], encoding="utf-8")
    # in the project's folder, so that mypy shares its cache with the check of the project
    ran = subprocess.run([sys.executable, "-m", "mypy", *paths], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_a_pipeline_of_ones_own_is_cached_shown_and_asked_again(
    run: Command, crosscheck: CommandLine
) -> None:
    first = run("vote.py:vote").json
    assert (first["pipeline"], first["questions"]) == ("vote", 2)
    assert [stage["name"] for stage in first["stages"]][:2] == ["1_preliminary_sql", "2_preliminary_sql"]
    again = run("vote.py:vote").json
    assert again["prefect"]["task_runs"] == ONLY_THE_FLOW, "every stage is restored"
    assert again["ex"] == first["ex"]

    named = load_pipeline_settings(find_conf(), str(crosscheck.cwd / "careful-vote.yaml"))
    assert (named.name, named.demonstrations.k, named.model_dump()["votes"]) == ("careful-vote", 4, 5)

    rerun = crosscheck.run("rerun", "latest", "--questions", str(_ids(crosscheck)[0]), "--json")
    assert rerun.code == 0, rerun.err


def _ids(crosscheck: CommandLine) -> list[str]:
    dev = crosscheck.home / "benchmarks" / "demo" / "dev.json"
    return [each["question_id"] for each in json.loads(dev.read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_a_stage_of_ones_own_is_cached_and_scored(run: Command) -> None:
    first = run("simpler.py:simpler").json
    assert [stage["name"] for stage in first["stages"]] == ["1_preliminary_sql", "2_simpler_sql"]
    assert first["stages"][0]["correct"] <= first["correct"], "the default backbone loses nothing by it"
    again = run("simpler.py:simpler").json
    assert again["stages"] == first["stages"]
    assert again["prefect"]["task_runs"] == ONLY_THE_FLOW, "every stage is restored"


@pytest.mark.slow
def test_a_backbone_of_ones_own_is_asked_once_and_its_replies_are_kept(
    run: Command, crosscheck: CommandLine
) -> None:
    ran = run("constant.py:constant").json
    assert (ran["backbone"], ran["questions"]) == ("constant", 2)
    with sqlite3.connect(crosscheck.home / "replies.sqlite") as replies:
        assert replies.execute("SELECT count(*) FROM reply").fetchone() == (2,)
    again = run("constant.py:constant").json
    assert again["prefect"]["task_runs"] == ONLY_THE_FLOW, "every stage is restored"


@pytest.mark.slow
def test_a_reply_format_of_ones_own_is_asked_for_and_read(run: Command, crosscheck: CommandLine) -> None:
    ran = run("marked.py:Marked").json
    assert (ran["answered"], ran["questions"], ran["cost"]["calls"]) == (2, 2, 2)
    marked = REPLY_FORMATS.get(f"{crosscheck.cwd / 'marked.py'}:Marked")()
    assert marked.read('First SELECT 1.\n"sql":\nSELECT 2\n', SqlReply) == Reading(
        SqlReply(sql="SELECT 2"), "text"
    )
    assert marked.schema(SqlReply) is None and marked.schema(LinkReply) == reply_schema(LinkReply)


@pytest.mark.slow
def test_a_layout_of_ones_own_is_read(run: Command) -> None:
    ran = run("office.yaml").json
    assert (ran["benchmark"], ran["total"]) == ("office", 2)


@pytest.mark.slow
def test_a_metric_of_ones_own_is_in_the_summary(run: Command) -> None:
    assert run("sql_length.py:sql_length").json["metrics"]["sql_length"]["unit"] == "characters"
