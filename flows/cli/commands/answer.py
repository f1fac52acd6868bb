"""`crosscheck answer`."""

import asyncio
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from flows.cli import options
from tasks.core.wording import end_of
from tasks.settings.home import DEFAULT_BENCHMARK

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


class Answer(options.Backbone, options.Pipeline, options.Overrides, options.Files):
    """Answer one question on your own database: print the SQL and its result.

    Runs the pipeline's stages without Prefect and MLflow. Model replies are cached.

    Examples:
      crosscheck answer "How many heroes are from Marvel?" --database superhero.sqlite --backbone openai
      crosscheck answer "Which city has most customers?" --database postgresql://reader@db/shop --backbone openai
      crosscheck answer "Total sales?" --database shop.duckdb --evidence "sales: amt * qty" --backbone openai

    Exit codes: 0 the SQL ran; 1 no SQL, or it failed; 2 bad input or configuration;
    3 the model or the database's server does not answer: run the same command again.
    """

    grouped = True
    question: Annotated[str, options.Argument()]
    database: Annotated[str, options.Metavar("DATABASE")]
    """A SQLite or DuckDB file, a folder of Parquet or CSV files, or a URL: postgresql://reader@host/shop,
    mysql://reader@host/shop. It is only read. A password is better in PGPASSWORD or MYSQL_PWD."""
    evidence: str = ""
    """A hint that explains terms of the question, like BIRD's evidence."""
    demonstrations: Annotated[str, options.Metavar("NAME")] = DEFAULT_BENCHMARK
    """Benchmark whose training questions are the pool of demonstrations, or "none"."""
    rows: Annotated[int, Ge(1)] = 20
    """Number of result rows to show."""

    def __call__(self) -> int:
        with self.progress() as progress:
            names = map(end_of, (self.pipeline, self.backbone))
            progress.step(f"Answering with {' and '.join(names)}")
            from flows.evaluate.answering import AnswerRequest, DatabaseAnswer, answer_one

            request = AnswerRequest(self.question, self.evidence, self.database, self.rows)
            answered = asyncio.run(answer_one(self.settings(), request, progress))

        from flows.cli.display.lists import print_answer

        self.emit(DatabaseAnswer.model_validate(answered), lambda stream: print_answer(answered, stream))
        return answered.exit_code

    def settings(self) -> "EvaluationSettings":
        """Return the settings of the options; training questions of their benchmark are the demonstrations."""
        from tasks.settings.pipeline import without_demonstrations

        if self.demonstrations != "none":
            return self.settings_of(benchmark=self.demonstrations)
        settings = self.settings_of(benchmark=DEFAULT_BENCHMARK)  # they need one, which is not used
        return settings.model_copy(update={"pipeline": without_demonstrations(settings.pipeline)})
