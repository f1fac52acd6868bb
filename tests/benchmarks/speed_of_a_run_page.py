r"""How long a browser takes to open the page of a run of 1,534 questions. A script, not a test:

    python tests/benchmarks/speed_of_a_run_page.py [--questions 1534] [--repeats 3]

A run of the demo with RSL-SQL and the offline backbone is made, and its questions, with all their stages,
prompts, replies and results, are repeated under new ids. Chromium, headless, opens the page until its script has run
and it is laid out, and an empty page for comparison. Printed are the least seconds of each, and the least seconds of
processor time, which other programs on the machine change little; their difference is what the page takes. The target
is 2 s of processor time.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from flows.evaluate.question_view import question_objects, view_questions
from flows.evaluate.run_view import view_run
from flows.runtime.folders import Folders
from tasks.documents.html import html
from tasks.pages.run_page import run_page
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.benchmarks.parts import processor_time

TARGET_S = 2.0
EMPTY = "<!DOCTYPE html><title>empty</title>"


def long_page(home: Home, questions: int) -> str:
    """Return the page of a run of the demo whose questions are repeated."""
    evaluate = ["evaluate", "--pipeline", "rsl-sql", "--home", str(home.path)]
    command = [sys.executable, "-m", "flows.cli", *evaluate]
    subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[2])
    warehouse = Warehouse(home.warehouse)
    stored = warehouse.read_run(warehouse.runs()[0].run_id)
    folders = Folders(Path("data"), home)
    views = view_questions(stored, stored.rows, folders, rows=5)
    repeated = []
    for number in range(questions):
        view = views[number % len(views)]
        question = replace(view.score.question, id=str(number), text=f"{view.score.question.text} ({number})")
        repeated.append(replace(view, score=replace(view.score, question=question)))
    whole = stored.model_copy(update={"rows": tuple(each.score for each in repeated)})
    return html(run_page(view_run(whole, folders), question_objects(repeated)))


def seconds(page: Path) -> tuple[float, float]:
    """Return how long a browser takes from its start to the page's text: seconds, and of those on a processor."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--single-process", "--no-zygote"]
        words = ["chromium", *options, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
        started, before = time.perf_counter(), processor_time()
        subprocess.run(words, check=True, capture_output=True)
        return time.perf_counter() - started, processor_time() - before


def main() -> None:
    """Build and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=1534)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page, empty = Path(folder) / "page.html", Path(folder) / "empty.html"
        text = long_page(Home(Path(folder)), given.questions)
        page.write_text(text, encoding="utf-8")
        empty.write_text(EMPTY, encoding="utf-8")
        found = [(*seconds(page), *seconds(empty)) for _ in range(given.repeats)]
    full, full_cpu, none, none_cpu = (min(times) for times in zip(*found, strict=True))
    took = full_cpu - none_cpu
    print(f"{len(text.encode()) / 1e6:.1f} MB: {full:.2f} s ({full_cpu:.2f} s of processor time)")
    print(f"an empty page: {none:.2f} s ({none_cpu:.2f} s), so the page takes {took:.2f} s of processor time")
    if took > TARGET_S:
        sys.exit(f"above the target of {TARGET_S:g} s")


if __name__ == "__main__":
    main()
