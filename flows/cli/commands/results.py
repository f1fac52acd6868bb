"""The commands that show runs: `crosscheck runs`, `show`, `view`, `compare` and `leaderboard`."""

import sys
from pathlib import Path
from threading import Thread
from typing import Annotated, Literal, TextIO

import click
from annotated_types import Ge, Gt, Le, Lt

from flows.cli import options
from flows.runtime.folders import Folders
from flows.runtime.output import check_page, open_in_browser
from tasks.core.errors import ConfigurationError, DataError, ExitCode, did_you_mean
from tasks.settings.home import find_data


class Runs(options.Output):
    """List all runs, newest first.

    Examples:
      crosscheck runs
      crosscheck runs --benchmark bird-dev --limit 5
      crosscheck runs --tag team=search
      crosscheck compare latest~1 latest

    Exit codes: 0 listed; 2 bad input.
    """

    benchmark: Annotated[str | None, options.Metavar("NAME")] = None
    """List only runs of this benchmark."""
    tag: Annotated[tuple[str, ...], options.Metavar("KEY[=VALUE]")] = ()
    """List only runs with this tag. May be given several times."""
    limit: Annotated[int, Ge(1)] = 20
    """List only the latest N runs."""

    def __call__(self) -> None:
        from tasks.documents.terminal import open_console, print_blocks
        from tasks.pages.lists import runs_table

        tags = [tag.partition("=") for tag in self.tag]
        runs = self.warehouse.runs()
        benchmarks = {run.benchmark for run in runs}
        if self.benchmark and benchmarks and self.benchmark not in benchmarks:
            raise DataError(
                f'There is no run of "{self.benchmark}". {did_you_mean(self.benchmark, sorted(benchmarks))}'
            )
        records = [
            run
            for run in runs
            if self.benchmark in (None, run.benchmark)
            and all(key in run.tags and value in ("", run.tags[key]) for key, _, value in tags)
        ]

        def show(stream: TextIO) -> None:
            if records:
                table = runs_table(records, self.limit, more="; --limit shows more")
                print_blocks(open_console(stream), (table,))
                return
            which = f" of {self.benchmark}" if self.benchmark else ""
            which += f" with the tag {' and '.join(self.tag)}" if self.tag else ""
            click.echo(
                f'There is no run{which} in {self.read_folder.warehouse} yet. Start one with "crosscheck evaluate".',
                stream,
            )

        listed = [run.model_dump(mode="json") for run in records[: self.limit]]
        self.emit({"runs": listed, "total": len(records)}, show)


class Leaderboard(options.Page):
    """Rank the latest run of each backbone and pipeline by its execution accuracy, or by the score that --by names.

    Runs with the same questions are ranked together. Runs that saw the gold, repeated an answer (tag rerolled)
    or are not complete are listed apart, with the reason.

    Examples:
      crosscheck leaderboard
      crosscheck leaderboard --benchmark bird-dev --html leaderboard.html
      crosscheck leaderboard --benchmark bird-dev --by arcwise

    Exit codes: 0 printed; 2 bad input.
    """

    benchmark: Annotated[str | None, options.Metavar("NAME")] = None
    """Only this benchmark."""
    by: Annotated[str | None, options.Metavar("SCORE")] = None
    """Rank by another score of the runs: an answer key, decided, without_quarantine or a rule. [default: execution
    accuracy]"""

    def __call__(self) -> None:
        from tasks.pages.lists import leaderboard_document
        from tasks.results.leaderboard import leaderboard
        from tasks.results.run_record import json_of

        boards = leaderboard(self.warehouse, self.benchmark, self.by or "")
        if self.benchmark is not None and not boards:
            benchmarks = sorted({run.benchmark for run in self.warehouse.runs()})
            raise DataError(
                f'No run of "{self.benchmark}" is finished. {did_you_mean(self.benchmark, benchmarks)}'.strip()
            )
        if self.by and boards and not any(board.ranked for board in boards):
            scores = {name for stored in self.warehouse.finished_runs() for name in stored.scores}
            if self.by not in scores:
                raise ConfigurationError(f'No run has a score "{self.by}". {did_you_mean(self.by, scores)}')
        document = leaderboard_document(boards)
        self.write_page(lambda: document)
        self.emit({"boards": [json_of(board) for board in boards]}, document)


DEFAULT_PAGE = "reports/RUN.html"


class Show(options.Details, options.Files):
    """Show a RUN, or a QUESTION of it by its id with everything that is known about it.

    The gold SQL is shown for reading only. Prompts and replies come from the reply cache; the offline backbone and
    recordings run again at no cost. No other model is called.

    Examples:
      crosscheck show latest
          score, problems, stages, cost and the comparison with the previous run
      crosscheck show latest --details
          also by difficulty and database, causes, calls, and the wrong questions
      crosscheck show latest~1 --wrong --limit 100
      crosscheck show 20261121-020000-3f9a1c 717
          a question: verdict, predicted and gold SQL with their difference, both results, stages
      crosscheck show latest 717 --prompts
          also whole prompts and replies
      crosscheck show latest --open
          every question on one page: stages, prompts, replies, both results
      crosscheck show latest --wrong --html wrong.html

    RUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.
    The page loads nothing and can be sent by mail; MLflow gets it as an artifact of the run.

    Exit codes: 0 shown; 2 bad input.
    """

    run: Annotated[str, options.Argument("RUN")]
    question: Annotated[str | None, options.Argument("[QUESTION]")] = None
    wrong: bool = False
    """List the questions with a wrong answer."""
    unanswered: bool = False
    """List the questions without an answer."""
    limit: Annotated[int, Ge(1)] = 20
    """List at most N questions of each kind."""
    prompts: bool = False
    """With QUESTION: print whole prompts and replies."""
    rows: Annotated[int, Ge(1)] = 5
    """With QUESTION, or on the page: rows of each result."""
    html: Annotated[
        str | None, options.Metavar("[FILE]"), options.More(is_flag=False, flag_value=DEFAULT_PAGE)
    ] = None
    """Write the run as one HTML page with every question, or with --wrong the wrong ones. Without FILE it is
    reports/RUN.html in the working folder."""
    open: bool = False
    """Write the page, and open it in a browser."""

    def __call__(self) -> None:
        if self.question is not None and (self.wrong or self.unanswered):
            raise ConfigurationError("--wrong and --unanswered list questions: leave QUESTION out.")
        if self.question is not None and (self.html is not None or self.open):
            raise ConfigurationError("--html and --open write the page of a run: leave QUESTION out.")
        if self.question is None and self.prompts:
            raise ConfigurationError("--prompts needs a question: crosscheck show RUN QUESTION --prompts.")
        if self.html is not None or self.open:
            self._write_page()
            return
        (stored,) = self.read_runs(self.run, question_id=self.question)
        if self.question is not None:
            from flows.cli.display.question import print_question
            from flows.evaluate.question_view import COMPARED, QuestionDocument, find_question, view_questions

            score = find_question(stored, self.question)
            (viewed,) = view_questions(stored, [score], self.folders, rows=self.rows, compared=COMPARED)
            document = QuestionDocument.model_validate(viewed) if self.as_json else None
            self.emit(document, lambda stream: print_question(viewed, stream, whole=self.prompts))
            return
        from flows.evaluate.run_view import ListedQuestion, view_run
        from flows.runtime.summary import print_summary
        from tasks.results.run_record import json_of

        only_lists = self.wrong or self.unanswered
        view = view_run(stored, self.folders, by_question=only_lists or self.details or self.as_json)
        listed = {"wrong": view.wrong, "unanswered": view.unanswered}
        if only_lists:
            listed = {kind: rows for kind, rows in listed.items() if getattr(self, kind)}

        def show(stream: TextIO) -> None:
            if not only_lists:
                print_summary(view.record, self.folder, stream, details=self.details, ended=False)
            if only_lists or self.details:
                from flows.cli.display.question import print_lists

                print_lists(view, listed, self.limit, stream)

        listed_as_json = {}
        if self.as_json:
            for kind, rows in listed.items():
                listed_as_json[kind] = [json_of(ListedQuestion.of(view, row)) for row in rows[: self.limit]]
        self.emit(json_of(view.record) | {"listed": listed_as_json}, show)

    def _write_page(self) -> None:
        from flows.cli.display.viewer import write_report

        file = None if self.html in (None, DEFAULT_PAGE) else Path(str(self.html)).expanduser()
        if file is not None:
            check_page(file)
        with self.progress() as progress:
            report = write_report(
                self.run, self.folders, progress, file, only_wrong=self.wrong, rows=self.rows
            )
        in_mlflow = "In MLflow it is the run's artifact report.html."
        if report.problem:
            in_mlflow = f"It is not in MLflow: {report.problem}"
        mlflow = report.problem or "logged"
        page = {"page": str(report.path), "bytes": report.size, "mlflow": mlflow}
        self.emit({"run_id": report.run_id, **page}, f"The page is {report.path}.\n{in_mlflow}")
        if self.open:
            open_in_browser(report.path.as_uri())


class View(options.Files):
    """Show all runs in a browser, until Ctrl-C: lists, runs, questions, and two runs side by side.

    The pages are made from the working folder, which they only read. Runs that are added meanwhile are on them. The
    gold SQL is shown for reading only, and no model is called. Only this machine can open the address.

    Examples:
      crosscheck view --open
      crosscheck view --port 7801 --home /shared/nightly

    From another machine, use a tunnel: ssh -L 7800:127.0.0.1:7800 THIS-MACHINE

    Exit codes: 0 stopped; 2 bad input, or the port is in use.
    """

    port: Annotated[int, options.Metavar("PORT"), Ge(0), Le(65535)] = 7800
    """Port; 0 takes any free one."""
    open: bool = False
    """Open the list of runs in a browser."""

    def __call__(self) -> None:
        from flows.cli.display.viewer import open_server
        from flows.runtime.signals import logging_to, stopped_by_signals

        folders = Folders(find_data(self.data), self.read_folder)
        with open_server(folders, self.port) as server, logging_to(folders.home):
            url = f"http://127.0.0.1:{server.server_port}/"
            self.emit({"url": url}, f"Results  {url}\n\nCtrl-C stops it.")
            sys.stdout.flush()
            if self.open:
                open_in_browser(url)
            with stopped_by_signals(lambda: Thread(target=server.shutdown).start()):
                server.serve_forever()


MAX_FLIPS = 10
"""Questions that a comparison lists without --all."""


class Compare(options.Page):
    """Test whether the second run is better than the first, and list the questions on which they differ.

    The runs are paired by question. Shows an exact McNemar test, an interval of the difference, and the
    questions that only one of the runs answered correctly. If the difference is not significant, no run is better.

    RUN is one run. Several runs of one system, separated by commas, are compared by how often each question is right
    (an exact sign-flip test over questions). RUN:repeats stands for the repeats that `--repeats` made of a run.

    Examples:
      crosscheck compare latest~1 latest
          compares the last finished run with the one before it
      crosscheck compare 20261121-020000-3f9a1c 20261122 --html comparison.html
          by run id or its first characters, or by the run's id in MLflow
      crosscheck compare latest~1 latest --rule strict --all
      crosscheck compare 20261121-020000-3f9a1c latest --fail-if worse --margin 2
          for a release: fails unless it is proven that the last run is not worse by 2 points or more
      crosscheck compare 20261121-020000-3f9a1c:repeats latest~2,latest~1,latest

    Exit codes: 0 compared, and with --fail-if: no loss is proven, also where too few answers differ to prove one;
    1 the condition of --fail-if holds; 2 bad input, runs that cannot be compared, or with --fail-if: the same run
    twice, a run that is not complete or may not be ranked, or a loss that depends on failures that may pass.
    """

    run_a: Annotated[str, options.Argument("RUN")]
    run_b: Annotated[str, options.Argument("RUN")]
    rule: Annotated[str | None, options.Metavar("NAME")] = None
    """Comparison rule: bird, spider, strict or subset. [default: the runs' headline rule]"""
    fail_if: Literal["worse"] | None = None
    """Exit with code 1 if the second run is worse: if the test proves it, or, with --margin, unless the test proves
    that it is not worse by the margin or more."""
    margin: Annotated[float | None, options.Metavar("POINTS"), Gt(0), Lt(100)] = None
    """Also test whether the second run is not worse by this many percentage points or more (non-inferiority)."""
    everything: Annotated[bool, options.More("--all")] = False
    """List every question whose verdict differs, not only the first 10."""

    def __call__(self) -> int:
        from tasks.pages.comparison import comparison_document
        from tasks.results.comparison import gated

        comparison = self.results.compare(self.run_a, self.run_b, rule=self.rule, margin=self.margin)
        if self.fail_if:
            comparison = gated(comparison)
        document = comparison_document(comparison, None if self.everything else MAX_FLIPS)
        self.write_page(lambda: document)
        self.emit(comparison, document)
        return ExitCode.NEGATIVE if comparison.gate and comparison.gate.failed else ExitCode.DONE
