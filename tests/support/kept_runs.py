"""Runs of the demo by the offline backbone, written as an evaluation writes them, and the commands that show them."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tasks.results.build_record import describe, record_of
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.scores import QuestionScore, Verdict
from tasks.settings.home import Home
from tests.support.command_line import Ran
from tests.support.offline_run import offline_run

RULES = ("bird", "spider", "strict")
RIGHT = Verdict(dict.fromkeys(RULES, True), "ok", row_count=1)


class KeptRuns:
    """Answers of a pipeline to the first questions, and runs of them in a working folder.

    Attributes:
        asked: the answers, and what was asked for them.
        run: runs commands with that folder.
    """

    def __init__(
        self, home: Home, run: Callable[..., Ran], pipeline: str = "zero-shot", limit: int = 3
    ) -> None:
        self.home = home
        self.run = run
        self.asked = asyncio.run(offline_run(pipeline, home=home.path, limit=limit))
        self.warehouse = Warehouse(home.warehouse)

    def judged(self, *, right: bool = False) -> list[QuestionScore]:
        """Return the outcomes, all with the same verdict."""
        verdict = Verdict(dict.fromkeys(RULES, right), "ok", row_count=1)
        outcomes, gold = self.asked.outcomes, self.asked.preparation.benchmark.gold
        return [
            QuestionScore(
                question, outcomes[question.id], verdict,
                {each.stage: verdict for each in outcomes[question.id].candidates}, gold[question.id],
            )
            for question in self.asked.preparation.answerable
        ]  # fmt: skip

    def keep(
        self,
        scores: Sequence[QuestionScore],
        *,
        pipeline: str = "",
        backbone: dict[str, Any] | None = None,
        benchmark: dict[str, Any] | None = None,
    ) -> str:
        """Write a run with some settings changed; return its id."""
        preparation = self.asked.preparation
        kinds = ("benchmark", "backbone", "pipeline")
        settings = {kind: getattr(preparation.settings, kind).model_dump(mode="json") for kind in kinds}
        settings["backbone"] |= backbone or {}
        settings["benchmark"] |= benchmark or {}
        files = preparation.benchmark.question_files
        run = describe(settings, files, engine="", questions_in_benchmark=60)
        run = run.model_copy(update={"pipeline": pipeline or run.pipeline})
        self.warehouse.finish(record_of(run, scores, seconds=2.0))
        return run.run_id

    def show(self, *words: str) -> str:
        """Return what is shown of the latest run."""
        ran = self.run("show", "latest", *words)
        assert (ran.code, ran.err) == (0, ""), ran.err
        return ran.out

    def page(self) -> Path:
        """Return the page of the latest run."""
        ran = self.run("show", "latest", "--html", "--json")
        assert ran.code == 0, ran.err
        return Path(ran.json["page"])
