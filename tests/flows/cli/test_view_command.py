"""`crosscheck view`: pages of all runs at a local address, made from the working folder and nothing else."""

import hashlib
import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from flows.cli.display.viewer import open_server
from flows.runtime.folders import Folders
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.command_line import CommandLine
from tests.support.contents import contents
from tests.support.in_process import run
from tests.support.scored_home import OTHER, scored_home
from tests.tasks.results.night_samples import keep
from tests.tasks.results.page_parts import EVIL, Page, hostile_runs

Get = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def home(built_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three questions: "worse" has question 1 wrong, "better" has all right."""
    folder = tmp_path_factory.mktemp("viewed")
    return scored_home(folder, built_demo, {"worse": ("1",), "better": ()}, limit=3)


def viewed(home: Path) -> Iterator[Get]:
    """Serve the pages of a working folder; yields a function that returns status and text of a page."""
    with open_server(Folders(home, Home(home)), 0) as server:
        Thread(target=server.serve_forever).start()

        def get(path: str, host: str = "localhost:1", method: str = "GET") -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
            connection.request(method, path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        try:
            yield get
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def get(home: Path) -> Iterator[Get]:
    yield from viewed(home)


def links(page: str) -> list[str]:
    return [value for name, value in Page(page).attributes if name == "href"]


def test_every_link_leads_to_a_page(get: Get) -> None:
    found, left = {"/"}, ["/"]
    while left:
        status, page = get(left.pop())
        assert status == 200, page
        new = {link for link in links(page) if link.startswith("/")} - found
        found |= new
        left += new
    # two to choose with, two orders of a pair
    assert sum(link.startswith("/compare/") for link in found) == 4
    assert sum(link.count("/") == 3 for link in found if link.startswith("/runs/")) == 2 * 3


def test_a_run_has_filters_with_plain_names_and_its_questions_their_results_and_other_answers(
    get: Get, tmp_path: Path
) -> None:
    _, page = get("/runs/latest/1")
    assert "Question 1" in Page(page).text and OTHER.split("'")[1] in Page(page).text
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    (question, *_) = [json.loads(part) for part in contents(file) if part.startswith(b'{"run_id"')]
    assert question["correct"] and question["predicted_result"]["rows"] == question["gold_result"]["rows"]
    assert len(links(page)) == len(set(links(page)))
    labels = re.findall(r"<label[^>]*>([^<]*) <", get("/runs/latest")[1])
    assert labels == ["Search", "Answer", "Database", "Difficulty", "Cause", "Stage"]
    _, page = get("/compare/latest~1/latest")
    parts = Page(page)
    assert [flip["data-id"] for flip in parts.flips] == ["1"] and "1 fixed and 0 broken" in parts.text


def test_what_cannot_be_shown_is_said_in_a_page(get: Get) -> None:
    for path, status, reason in (
        ("/runs/nope", 404, 'There is no run "nope"'),
        ("/runs/latest/99", 404, 'has no question "99"'),
        ("/compare/latest/%2e%2e%2fx", 404, 'There is no run "../x"'),
        ("/secret", 404, "There is no such page."),
        ("/runs/latest/1/2", 404, "There is no such page."),
    ):
        code, page = get(path)
        assert (code, reason in Page(page).text) == (status, True), path


def test_another_site_cannot_read_the_pages_and_nothing_can_be_changed(get: Get) -> None:
    for host in ("evil.example:7800", "localhost.evil.example", "[", ""):
        status, page = get("/", host=host)
        assert status == 403 and re.search(r"Open it as http://127\.0\.0\.1:[1-9]", Page(page).text)
    for host in ("127.0.0.1:7800", "[::1]:7800", "localhost"):
        assert get("/", host=host)[0] == 200
    assert get("/", method="POST")[0] == 501


def test_looking_changes_no_file_and_a_new_run_is_on_the_pages(home: Path) -> None:
    def state() -> dict[Path, str]:
        files = (path for path in home.rglob("*") if path.is_file())
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = state()
    for get in viewed(home):
        for path in ("/", "/leaderboard", "/runs/latest", "/runs/latest/1", "/compare/latest~1/latest"):
            assert get(path)[0] == 200
        assert state() == before
        warehouse = Warehouse(home / "warehouse.duckdb")
        run_id = warehouse.runs()[0].run_id
        warehouse.start(
            warehouse.read_run(run_id).model_copy(update={"run_id": "later", "status": "running"})
        )
        assert "/runs/later" in links(get("/")[1]) and "/compare/later" not in links(get("/")[1])
        assert get("/runs/later")[0] == 200


def test_mlflow_gets_the_page_of_a_run_and_of_its_comparison_with_the_run_before(home: Path) -> None:
    later, first = (run for run in Warehouse(home / "warehouse.duckdb").runs() if run.is_finished)
    pages = {
        (run.run_id, file.name): Page(file.read_text(encoding="utf-8"))
        for run in (first, later)
        for file in (home / "mlartifacts" / str(run.mlflow_run_id) / "artifacts").glob("*.html")
    }
    alone, report = pages.pop((first.run_id, "report.html")), pages.pop((later.run_id, "report.html"))
    comparison = pages.pop((later.run_id, "comparison.html"))
    assert not pages, "the first run is compared with nothing"
    assert "There is no comparison with an earlier run" in alone.text
    assert "previous run" in report.text and "this run" in report.text
    assert len(report.flips) == 3 and "crosscheck show" in report.text
    assert first.run_id in comparison.text and later.run_id in comparison.text and len(comparison.flips) == 1


def test_texts_of_a_model_and_of_a_benchmark_do_nothing_on_the_pages(tmp_path: Path) -> None:
    keep(Warehouse(tmp_path / "warehouse.duckdb"), hostile_runs())
    for get in viewed(tmp_path):
        for path in ("/", "/leaderboard", "/runs/latest", "/runs/latest/0", "/compare/latest~1/latest"):
            status, page = get(path)
            tags = Page(page).tags
            assert status == 200 and "img" not in tags and tags.count("svg") == page.count("<svg")
            assert EVIL not in page and "\x1b" not in page and "\u202e" not in page
            assert page.count("<script") <= 3


def test_an_empty_folder_is_said_and_not_made(tmp_path: Path) -> None:
    for get in viewed(tmp_path / "none"):
        assert "There is no such run" in Page(get("/")[1]).text
        assert get("/runs/latest")[0] == 404 and get("/leaderboard")[0] == 200
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("view", "--home", str(home), "--port", str(port))
    ran.assert_refused(f"Port {port} of 127.0.0.1 cannot be used", "--port")


def test_the_command_prints_the_address_and_ends_with_ctrl_c(home: Path) -> None:
    process = CommandLine(home, {}).start_anew("view", "--port", "0", "--json")
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=60)
    connection.request("GET", "/")
    assert b"All runs" in connection.getresponse().read()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
