"""Building the demo benchmark: whole or not at all, once, and everywhere the same."""

import hashlib
import json
import multiprocessing
import shutil
import sqlite3
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random

import pytest

from tasks.benchmarks.demo import build_demo, demo_stamp
from tasks.benchmarks.demo.draw import bell, between, pick_skewed, pick_weighted, sample
from tasks.errors import DataError

SOURCES = Path(__file__).parents[3] / "conf" / "benchmarks" / "demo"
SMALL = "university_labs"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Sources of one small database, free to be changed."""
    shutil.copytree(SOURCES / SMALL, tmp_path / "sources" / SMALL)
    return tmp_path / "sources"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "benchmarks" / "demo"


def table_digests(demo: Path) -> dict[str, str]:
    digests = {}
    for path in sorted(demo.glob("dev_databases/*/*.sqlite")):
        with closing(sqlite3.connect(path)) as connection:
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall():
                rows = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid').fetchall()
                digests[f"{path.stem}.{table}"] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return digests


def build_when_all_are_ready(target: Path, sources: Path, ready: Barrier) -> None:
    ready.wait()
    build_demo(target, sources=sources)


def test_two_builds_have_the_same_content(tmp_path: Path) -> None:
    one = build_demo(tmp_path / "one", sources=SOURCES)
    two = build_demo(tmp_path / "two", sources=SOURCES)
    assert table_digests(one) == table_digests(two)
    assert len(table_digests(one)) > 40
    for name in ("dev.json", "train.json", "dev_tables.json", "built.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_draws_are_the_same_on_every_machine_and_python() -> None:
    rng = Random(7)
    assert [between(rng, 1, 100) for _ in range(5)] == [33, 16, 66, 8, 54]
    assert "".join(pick_weighted(rng, "abc", (3, 3, 4)) for _ in range(9)) == "bababaabc"
    assert [pick_skewed(rng, range(100)) for _ in range(5)] == [1, 4, 39, 89, 33]
    assert sample(rng, range(10), 4) == [2, 5, 9, 4]
    assert round(bell(rng, 10, 2), 6) == 7.314864


def test_progress_is_told_for_each_database(target: Path, sources: Path) -> None:
    told: list[str] = []
    build_demo(target, sources=sources, progress=told.append)
    assert told == ["Building the demo benchmark: university_labs (1 of 1)"]


def test_a_current_copy_is_left_alone(target: Path, sources: Path) -> None:
    build_demo(target, sources=sources)
    before = (target / "dev.json").stat().st_mtime_ns
    told: list[str] = []
    build_demo(target, sources=sources, progress=told.append)
    assert told == []
    assert (target / "dev.json").stat().st_mtime_ns == before


def test_changed_sources_are_built_anew(target: Path, sources: Path) -> None:
    build_demo(target, sources=sources)
    old = demo_stamp(sources)
    path = sources / SMALL / "questions.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("Linguistics", "Physics"), encoding="utf-8")
    assert demo_stamp(sources) != old
    build_demo(target, sources=sources)
    assert "founded FROM department WHERE name = 'Physics'" in (target / "dev.json").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", ["train.json", f"dev_databases/{SMALL}/{SMALL}.sqlite"])
def test_a_copy_that_lost_a_file_is_built_anew(target: Path, sources: Path, name: str) -> None:
    build_demo(target, sources=sources)
    (target / name).unlink()
    build_demo(target, sources=sources)
    assert (target / name).stat().st_size > 1000


def test_a_half_built_folder_is_replaced(target: Path, sources: Path) -> None:
    target.mkdir(parents=True)
    (target / "dev.json").write_text("[", encoding="utf-8")
    build_demo(target, sources=sources)
    assert len(json.loads((target / "dev.json").read_text(encoding="utf-8"))) == 17


def test_a_build_that_fails_leaves_the_old_copy_and_no_rubbish(target: Path, sources: Path) -> None:
    build_demo(target, sources=sources)
    kept = (target / "built.json").read_bytes()
    with (sources / SMALL / "schema.sql").open("a", encoding="utf-8") as file:
        file.write("CREATE TABLE lab (broken);\n")
    with pytest.raises(DataError, match="table lab already exists"):
        build_demo(target, sources=sources)
    assert (target / "built.json").read_bytes() == kept
    assert [path.name for path in target.parent.iterdir()] == ["demo"]


@pytest.mark.parametrize("stale", [False, True], ids=["from nothing", "over an older copy"])
def test_processes_that_build_at_once_leave_one_whole_copy(target: Path, sources: Path, stale: bool) -> None:
    if stale:
        target.mkdir(parents=True)
        (target / "built.json").write_text('{"stamp": "old", "sizes": {}}', encoding="utf-8")
    context = multiprocessing.get_context("spawn")
    given = (target, sources, context.Barrier(4))
    processes = [context.Process(target=build_when_all_are_ready, args=given) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert [path.name for path in target.parent.iterdir()] == ["demo"]
    assert json.loads((target / "built.json").read_text(encoding="utf-8"))["stamp"] == demo_stamp(sources)


def test_sources_without_a_database_are_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no demo database here"):
        build_demo(tmp_path / "demo", sources=tmp_path / "nowhere")


def test_a_description_of_a_column_that_is_not_there_is_an_error(target: Path, sources: Path) -> None:
    with (sources / SMALL / "descriptions" / "lab.csv").open("a", encoding="utf-8") as file:
        file.write("colour,,,text,\n")
    with pytest.raises(DataError, match=r'lab\.csv: the table "lab" of \w+ has no column "colour"'):
        build_demo(target, sources=sources)


def test_an_unknown_key_of_a_question_is_an_error(target: Path, sources: Path) -> None:
    path = sources / SMALL / "questions.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("evidence:", "hint:", 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"questions.yaml(.|\n)*hint"):
        build_demo(target, sources=sources)


def test_a_database_without_rows_of_its_own_is_an_error(target: Path, sources: Path) -> None:
    (sources / SMALL).rename(sources / "bakeries")
    with pytest.raises(DataError, match=r"Write tasks/benchmarks/demo/bakeries\.py"):
        build_demo(target, sources=sources)
