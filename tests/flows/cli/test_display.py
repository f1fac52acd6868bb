"""What a person sees: a live display that goes away, tables that stay whole, plain lines where no terminal is."""

import io
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flows.runtime import progress
from flows.runtime.control import Interrupted
from flows.runtime.progress import LineProgress, open_asking, open_progress
from flows.runtime.summary import next_steps, print_summary
from tasks.core.outcome import Call, Usage
from tasks.core.wording import counts, percent
from tasks.documents.model import Table
from tasks.documents.terminal import BOUNDLESS, open_console, print_blocks
from tasks.results.build_record import record_of
from tasks.scoring.scores import is_right
from tasks.settings.home import Home
from tests.support.command_line import CommandLine
from tests.support.terminal import run_in_terminal
from tests.tasks.results.samples import make_record, make_rows, make_run

STAGES = ("1_preliminary_sql", "2_augmented_sql", "3_binary_selection", "4_self_correction")
COLOURS = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")


def wide() -> Table:
    row = ("augmentation_conditions", *(f"{n}234,567" for n in range(8)))
    return Table("Calls", ("stage", *(f"column number {n}" for n in range(8))), (row,))


def shown(table: Table, width: int) -> list[str]:
    stream = io.StringIO()
    print_blocks(Console(file=stream, width=width), (table,))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_reader_that_has_closed_the_pipe_is_no_failure_of_the_command() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):  # the command line then exits with code 0, Rich with 1
        open_console(Closed()).print("text")


@pytest.mark.slow
def test_an_evaluation_in_a_narrow_terminal_leaves_only_its_summary(demo: CommandLine) -> None:
    code, screen = run_in_terminal(
        demo.command("evaluate", "--limit", "4", "--pipeline", "rsl-sql"),
        demo.cwd,
        demo.all_of_environment | {"TERM": "xterm-256color", "NO_COLOR": ""},
        columns=80,
    )
    assert code == 0, screen.text
    assert any("Waiting for Prefect's server" in line for line in screen.seen)
    assert any(re.search(r"\d/4 .*(calls|Asking|Scoring)", line) for line in screen.seen)
    assert not screen.cursor_hidden
    first, run, headline, *lines = [line for line in screen.text.splitlines() if line]
    assert len(screen.text.splitlines()) <= 40
    assert first == "demo · offline · rsl-sql"
    assert re.fullmatch(
        r"execution accuracy .* of 4, rule bird, 95 % interval [\d.]+ to [\d.]+ %\)", headline
    )
    assert STAGES[0] in screen.text and f"{STAGES[1]} to {STAGES[-1]}" in screen.text, "a name was cut"
    assert not any("…" in line or line.startswith((" " * 20 + "4)", "Reading", "⠋")) for line in lines)
    assert re.search(r"^\d+ calls, free of charge, 0 from the cache; ", screen.text, re.M)
    assert "Traceback" not in screen.raw
    assert "WARNING" not in screen.raw
    assert COLOURS.search(screen.raw)
    run_id = run.removeprefix("run ").partition(" ")[0]
    assert re.search(
        rf"^Next\ncrosscheck show {run_id} --(wrong|details) +# .*\n"
        rf"crosscheck show {run_id} --open +# every question on a page\n"
        rf"crosscheck show {run_id} --details +# all tables, MLflow",
        screen.text,
        re.M,
    )


@pytest.mark.slow
def test_no_color_is_respected(built_demo: Path, tmp_path: Path) -> None:
    database = next((built_demo / "benchmarks/demo/dev_databases/city_library").glob("*.sqlite"))
    crosscheck = CommandLine(tmp_path / "home", {"TERM": "xterm-256color", "NO_COLOR": "1"})
    command = crosscheck.command("answer", "How many members are there?", "--database", str(database))
    _, screen = run_in_terminal(command, crosscheck.cwd, crosscheck.all_of_environment)
    assert "SELECT COUNT(*) FROM" in screen.text
    assert not COLOURS.search(screen.raw)


def test_a_table_that_fits_stays_and_one_too_wide_loses_air_then_columns_but_no_name_and_says_so() -> None:
    lines = shown(wide(), 300)
    assert lines[1] == "Calls"
    assert lines[4].split() == ["augmentation_conditions", *(f"{n}234,567" for n in range(8))]
    tighter = shown(wide(), 100)
    assert "augmentation_conditions 0234,567 1234,567" in "\n".join(tighter)
    assert "wider terminal" not in "\n".join(tighter)
    narrow = shown(wide(), 60)
    assert max(map(len, narrow)) <= 60
    assert any(line.startswith("augmentation_conditions 0234,567") for line in narrow)
    assert " ".join(narrow).endswith(
        "a wider terminal also shows column number 4, column number 5, column number 6, column number 7"
    )
    assert any("0234" in line for line in shown(wide(), 20))


def test_a_narrow_heading_keeps_its_signs_and_a_remark_after_a_sentence_is_a_sentence() -> None:
    table = Table("", ("run", "95 % interval", "B − A"), (("few-shot", "11.2 to 46.9", "0.00"),), "All runs.")
    lines = shown(table, 27)
    assert [" ".join(line.split()) for line in lines[:2]] == ["95 %", "run interval B − A"]
    assert " ".join(shown(table, 26)).endswith("All runs. A wider terminal also shows B − A")


def test_a_remark_below_a_narrow_table_is_as_wide_as_the_page() -> None:
    stream, remark = io.StringIO(), "a remark of more words than the table has room for in one line"
    print_blocks(open_console(stream), [Table("Metrics", ("", "A"), (("EX", "1"),), remark)])
    assert stream.getvalue().splitlines()[-1] == remark


def test_shares_of_linking_have_their_counts_and_means_the_number_of_questions(tmp_path: Path) -> None:
    stream, record = io.StringIO(), make_record(20, seconds=1.0)
    print_summary(record, Home(tmp_path), stream, details=True)
    linking = record.links[1]
    cells = (
        f"{percent(each)} {counts(each)}" for each in (linking.nsr, linking.strict_recall, linking.precision)
    )
    row = next(line for line in stream.getvalue().splitlines() if line.startswith("both"))
    assert " ".join(row.split()) == " ".join(("both", *cells, str(linking.linked), "2.50", "9.25", "81.0 %"))
    assert "means over the questions linked" in stream.getvalue()


def test_what_is_no_terminal_gets_no_control_character_and_whole_lines() -> None:
    stream = io.StringIO()
    console = open_console(stream)
    console.print("[bold red]text[/] :smile:")
    assert stream.getvalue() == "text :smile:\n"
    assert console.width == BOUNDLESS
    table = wide()
    longer = replace(table, rows=(*table.rows, ("x" * 500, *("0" for _ in range(8)))))
    print_blocks(console, (longer,))
    last = stream.getvalue().rstrip().splitlines()[-1]
    assert last.startswith("x" * 500) and last.endswith("0")


def test_progress_without_a_terminal_is_plain_lines_each_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with open_progress(stream) as seen:
        assert isinstance(seen, LineProgress)
        seen.step("Reading demo")
        seen.step("Reading demo")
        seen.step("Building (2 of 7)")
        seen.step("Building (3 of 7)")
        seen.questions(1_200, 1_000)
        call = Call("request", "model", Usage(), cached=False, seconds=1.0, cost_usd=0.25)
        seen.answered(failed=False, calls=[call] * 9)
        monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
        seen._next_line = 0.0
        seen._began -= 100
        seen.answered(failed=True, calls=[replace(call, retries=2)])
        seen.judged(correct=True)
        seen.judged(correct=False)
        seen.answered(failed=False, calls=[])
        seen.answered(failed=False, calls=[replace(call, cost_usd=None)])
        seen.step("Building (4 of 7)")
        seen.note("Kept for later.")
    assert stream.getvalue().splitlines() == [
        "Reading demo",
        "Building (2 of 7)",
        "Building (3 of 7)",
        "1,200 questions, 1,000 restored from earlier runs",
        "1,002 of 1,200 questions · 10 calls · $2.50 · 2 h 45 min left · 1 failed · 2 requests repeated",
        "1,003 of 1,200 questions · 10 calls · EX 50.0 % (1 of 2 scored) · $2.50 · 1 h 49 min left · 1 failed · "
        "2 requests repeated",
        "1,004 of 1,200 questions · 11 calls · EX 50.0 % (1 of 2 scored) · cost unknown · 1 h 21 min left · "
        "1 failed · 2 requests repeated",
        "Building (4 of 7)",
    ]
    assert seen.notes == ["Kept for later."]


def test_without_a_terminal_the_last_state_of_every_step_is_printed() -> None:
    stream = io.StringIO()
    with open_progress(stream) as seen:
        for done in range(1, 10):
            seen.step(f"Judging {done} of 9 predictions")
        seen.questions(3, 1)
        seen.answered(failed=False, calls=[])
        seen.answered(failed=False, calls=[])
        seen.judged(correct=True)
        seen.step("Logging to MLflow")
        for recorded in range(3):
            seen.step(f"Prefect has recorded {recorded} of 2 task runs")
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["Judging 1 of 9 predictions", "Judging 9 of 9 predictions"]
    assert lines[2].startswith("3 questions, 1 restored")
    assert lines[3].startswith("3 of 3 questions · 0 calls · EX 100.0 %")
    assert lines[4:] == [
        "Logging to MLflow",
        "Prefect has recorded 0 of 2 task runs",
        "Prefect has recorded 2 of 2 task runs",
    ]


def test_what_is_counted_is_named_in_singular_or_plural_and_a_title_stands_before_every_line() -> None:
    stream = io.StringIO()
    with open_progress(stream, "2 of 9") as seen:
        seen.questions(1, 0)
        seen.questions(23, 0, "table")
        seen.answered(failed=False, calls=[])
    first, second, third = stream.getvalue().splitlines()
    assert first == "2 of 9: 1 question, 0 restored from earlier runs"
    assert second == "2 of 9: 23 tables, 0 restored from earlier runs"
    assert third.startswith("2 of 9: 1 of 23 tables")


def test_the_time_of_a_command_is_exact_and_leaves_out_the_script_that_became_it() -> None:
    program = (
        "import time, flows; here = time.monotonic(); "
        "from flows.runtime.summary import command_seconds; time.sleep(0.5); "
        "print(time.monotonic() - here, command_seconds())"
    )
    script = f"sleep 1; exec {shlex.quote(sys.executable)} -c {shlex.quote(program)}"
    before = time.monotonic()
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    own, told = map(float, ran.stdout.split())
    assert own <= told <= time.monotonic() - before - 1


@pytest.mark.parametrize("asked", [0, 3])
def test_an_interrupt_before_the_first_question_says_that_nothing_was_paid(asked: int) -> None:
    with pytest.raises((Interrupted, KeyboardInterrupt)) as stopped, open_asking() as display:
        display.step("Reading demo")
        if asked:
            display.questions(asked, 0)
        raise KeyboardInterrupt
    assert isinstance(stopped.value, KeyboardInterrupt) if asked else "nothing was paid" in str(stopped.value)


RUN, BEFORE = "20261121-020000-3f9a1c", "20261120-020000-3f9a1c"


@pytest.mark.parametrize(("questions", "only_right", "before", "commands"), [
    (9, False, "", [f"crosscheck show {RUN} --wrong", f"crosscheck show {RUN} --open"]),
    (9, False, BEFORE, [f"crosscheck show {RUN} --wrong", f"crosscheck compare {BEFORE} {RUN}"]),
    (9, True, "", [f"crosscheck show {RUN} --details", f"crosscheck show {RUN} --open"]),
    (11, False, "", [f"crosscheck rerun {RUN}", f"crosscheck show {RUN} --open"]),
])  # fmt: skip
def test_what_to_do_next_depends_on_wrong_and_unanswered_questions_and_the_run_before(
    questions: int, only_right: bool, before: str, commands: list[str]
) -> None:
    rows = make_rows(questions)
    rows = tuple(row for row in rows if is_right(row.final, "bird")) if only_right else rows
    run = make_run().model_copy(update={"run_id": RUN})
    told = next_steps(record_of(run, rows), before)
    assert [line.partition("  #")[0].rstrip() for line in told] == commands
    assert ("asks 1 again" in told[0]) == commands[0].startswith("crosscheck rerun")
