"""`crosscheck answer`."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from tasks.settings.home import DEFAULT_BENCHMARK

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(options.Backbone, options.Pipeline, options.Overrides, options.Files):
    """Options of `crosscheck answer`."""

    question: str = options.argument()
    database: str = options.option(
        "--database",
        required=True,
        metavar="DATABASE",
        help="A SQLite or DuckDB file, a folder of Parquet or CSV files, or a URL: postgresql://reader@host/shop, "
        "mysql://reader@host/shop. It is only read. A password is better in PGPASSWORD or MYSQL_PWD.",
    )
    evidence: str = options.option(
        "--evidence",
        default="",
        metavar="TEXT",
        help="A hint that explains terms of the question, like BIRD's evidence.",
    )
    demonstrations: str = options.option(
        "--demonstrations",
        default=DEFAULT_BENCHMARK,
        metavar="NAME",
        help='Benchmark whose training questions are the pool of demonstrations, or "none".',
    )
    rows: int = options.number("--rows", default=20, help="Number of result rows to show.")

    def settings(self) -> "EvaluationSettings":
        """Return the settings of the options."""
        from tasks.settings.assemble import evaluation_settings
        from tasks.settings.evaluation import EvaluationChoice
        from tasks.settings.pipeline import without_demonstrations

        none = self.demonstrations == "none"
        settings = evaluation_settings(
            EvaluationChoice.of_options(
                benchmark=DEFAULT_BENCHMARK if none else self.demonstrations,
                backbone=self.backbone,
                pipeline=self.pipeline,
                overrides=self.overrides,
                data=self.data,
                home=self.home,
            )
        )
        if not none:
            return settings
        return settings.model_copy(update={"pipeline": without_demonstrations(settings.pipeline)})


@click.command(
    "answer",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    '  crosscheck answer "How many heroes are from Marvel?" --database superhero.sqlite --backbone openai\n'
    '  crosscheck answer "Which city has most customers?" --database postgresql://reader@db/shop --backbone openai\n'
    '  crosscheck answer "Total sales?" --database shop.duckdb --evidence "sales: amt * qty" --backbone openai\n'
    "\nExit codes: 0 the SQL ran; 1 no SQL, or it failed; 2 bad input or configuration;\n"
    "3 the backbone gave no answer, and the question can be retried.",
)
@options.record(AnswerOptions)
def command(arguments: AnswerOptions) -> int:
    """Answer one question on your own database: print the SQL and its result.

    Runs the pipeline's stages without Prefect and MLflow. Model replies are cached.
    """
    with arguments.progress() as progress:
        progress.step(
            f"Answering with {options.end_of(arguments.pipeline)} and {options.end_of(arguments.backbone)}"
        )
        from flows.evaluate.answering import AnswerRequest, DatabaseAnswer, answer_one

        request = AnswerRequest(arguments.question, arguments.evidence, arguments.database, arguments.rows)
        answered = asyncio.run(answer_one(arguments.settings(), request, progress))

    from flows.pages.lists import print_answer

    arguments.emit(DatabaseAnswer.model_validate(answered), lambda stream: print_answer(answered, stream))
    return answered.exit_code
