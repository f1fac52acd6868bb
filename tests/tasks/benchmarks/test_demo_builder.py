"""Building the demo benchmark: whole or not at all, once, and everywhere the same."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tasks.benchmarks.demo import build_demo, demo_stamp
from tasks.core.errors import DataError
from tests.support.processes import at_once

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


def edit(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


def with_line(content: bytes, number: int, new: str) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[: number - 1], new.encode() + b"\n", *lines[number:]])


def test_two_builds_have_the_same_content(tmp_path: Path) -> None:
    one = build_demo(tmp_path / "one", sources=SOURCES)
    two = build_demo(tmp_path / "two", sources=SOURCES)
    assert table_digests(one) == table_digests(two)
    assert len(table_digests(one)) > 40
    for name in ("dev.json", "train.json", "dev_tables.json", "built.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.parametrize("name", ["questions.yaml", "schema.sql", "descriptions/lab.csv", "rows/lab.csv"])
def test_the_stamp_follows_every_source_but_not_its_line_endings(sources: Path, name: str) -> None:
    path, old = sources / SMALL / name, demo_stamp(sources)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b"\r\n"))
    assert demo_stamp(sources) == old
    path.write_bytes(content + b"\n")
    assert demo_stamp(sources) != old


def test_rows_with_the_line_endings_of_windows_are_the_same_rows(tmp_path: Path, sources: Path) -> None:
    one = build_demo(tmp_path / "one", sources=sources)
    for path in (sources / SMALL / "rows").iterdir():
        edit(path, b"\n", b"\r\n")
    (one / "dev.json").unlink()  # the stamp is the same: only a damaged copy is built again
    before = table_digests(one)
    assert table_digests(build_demo(one, sources=sources)) == before


def test_null_and_empty_text_are_told_apart(target: Path, sources: Path) -> None:
    path = sources / SMALL / "rows" / "researcher.csv"
    path.write_bytes(with_line(path.read_bytes(), 2, r'1,"","Dahl ""D"", MSc",1,P,2001-02-03,\N'))
    build_demo(target, sources=sources)
    with closing(sqlite3.connect(target / "dev_databases" / SMALL / f"{SMALL}.sqlite")) as connection:
        row = connection.execute("SELECT * FROM researcher WHERE researcher_id = 1").fetchone()
    assert row == (1, "", 'Dahl "D", MSc', 1, "P", "2001-02-03", None)


def test_progress_is_said_by_database_and_a_current_copy_left_alone(target: Path, sources: Path) -> None:
    lines: list[str] = []
    build_demo(target, sources=sources, progress=lines.append)
    assert lines == ["Building the demo benchmark: university_labs (1 of 1)"]
    before = (target / "dev.json").stat().st_mtime_ns
    build_demo(target, sources=sources, progress=lines.append)
    assert len(lines) == 1
    assert (target / "dev.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["train.json", f"dev_databases/{SMALL}/{SMALL}.sqlite"])
def test_a_half_built_folder_and_a_copy_that_lost_a_file_and_one_of_other_sources_are_built_anew(
    target: Path, sources: Path, name: str
) -> None:
    target.mkdir(parents=True)
    (target / "dev.json").write_text("[", encoding="utf-8")
    build_demo(target, sources=sources)
    assert len(json.loads((target / "dev.json").read_text(encoding="utf-8"))) == 17
    (target / name).unlink()
    build_demo(target, sources=sources)
    assert (target / name).stat().st_size > 1000
    (target / "built.json").write_bytes(b"\xff")
    build_demo(target, sources=sources)
    edit(sources / SMALL / "questions.yaml", b"Linguistics", b"Physics")
    build_demo(target, sources=sources)
    assert b"founded FROM department WHERE name = 'Physics'" in (target / "dev.json").read_bytes()


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
    at_once(4, partial(build_demo, target, sources=sources))
    assert [path.name for path in target.parent.iterdir()] == ["demo"]
    assert json.loads((target / "built.json").read_text(encoding="utf-8"))["stamp"] == demo_stamp(sources)


def test_sources_without_a_database_are_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no demo database here"):
        build_demo(tmp_path / "demo", sources=tmp_path / "nowhere")


@pytest.mark.parametrize(("number", "line", "message"), [
    (1, "dept_id,name,founded,faculty", "line 1: must be dept_id,name,faculty,founded"),
    (3, "2,Chemistry,Science", "line 3: 3 cells, but the header has 4"),
    (3, '2,"Chemistry,Science,1911', r"line 9: not CSV \(unexpected end of data\)"),
    (3, "two,Chemistry,Science,1911", "line 3: not a row of \"department\": invalid literal for int.*'two'"),
    (3, ",Chemistry,Science,1911", 'line 3: not a row of "department": invalid literal for int'),
    (3, f"{2**64},Chemistry,Science,1911", 'line 3: not a row of "department": .*too large'),
    (3, r"2,\N,Science,1911", r"line 3: .*NOT NULL constraint failed: department\.name"),
    (3, "1,Chemistry,Science,1911", r"line 3: .*UNIQUE constraint failed: department\.dept_id"),
])  # fmt: skip
def test_a_row_that_does_not_fit_is_an_error_that_says_where(
    target: Path, sources: Path, number: int, line: str, message: str
) -> None:
    path = sources / SMALL / "rows" / "department.csv"
    path.write_bytes(with_line(path.read_bytes(), number, line))
    with pytest.raises(DataError, match=rf"rows/department\.csv, {message}"):
        build_demo(target, sources=sources)
    assert not target.exists()


LAB_5 = "4,99,Catalysis Lab,Mendel Building,380,2001-02-12,\\N"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rows/lab.csv", lambda old: with_line(old, 5, LAB_5), r"lab\.csv, line 5: .*FOREIGN KEY constraint failed"),
        ("rows/authorship.csv", lambda old: old[:-1], r"rows/authorship\.csv, line 1833: breaks off"),
        ("rows/lab.csv", lambda old: old.replace(b"Faraday", b"\xe9", 1), r"rows/lab\.csv is not UTF-8"),
        ("rows/journal.csv", None, r"rows/journal\.csv cannot be read: No such file"),
        ("rows/bakery.csv", lambda old: b"name\n", r'rows/bakery\.csv: schema\.sql has no table "bakery"'),
        ("descriptions/bakery.csv", lambda old: b"name\n", r'descriptions/bakery\.csv: schema\.sql has no table'),
        ("descriptions/lab.csv", lambda old: old + b"colour,,,,\n", r'"lab" of \w+ has no column "colour"'),
        ("questions.yaml", lambda old: old.replace(b"evidence:", b"hint:", 1), r"questions.yaml(.|\n)*hint"),
    ],
)  # fmt: skip
def test_a_faulty_source_is_an_error_that_says_where(
    target: Path, sources: Path, name: str, change: Callable[[bytes], bytes] | None, message: str
) -> None:
    path = sources / SMALL / name
    if change:
        path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    else:
        path.unlink()
    with pytest.raises(DataError, match=message):
        build_demo(target, sources=sources)
    assert not target.exists()
