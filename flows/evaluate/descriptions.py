"""The `prepare` flow: column descriptions that a benchmark's databases lack, written by a backbone once."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.evaluate.preparation import Preparation
from flows.evaluate.runner import Resources
from flows.prefect.flow_runs import as_flow, flow_run_id, wait_until_recorded
from flows.runtime.control import Control, Interrupted, until_done_or_stopped
from tasks.benchmarks.descriptions import GeneratedColumn, read_generated, write_generated
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.records import Question
from tasks.database.database import Database
from tasks.database.schema import Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.database.sqlite_files import locked_folder
from tasks.settings.evaluation import EvaluationSettings
from tasks.stages.columns import describe_columns
from tasks.stages.question_run import QuestionRun, Stopped, in_question_run


@dataclass
class Prepared:
    """Counts and failures of a preparation."""

    databases: int
    undescribed: int = 0  # columns that had no description
    described: int = 0  # of those, the columns that have one now
    left_out: int = 0  # of those, the columns missing in the model's replies
    calls: int = 0  # paid model calls
    failures: dict[str, str] = field(default_factory=dict)  # error messages by `database.table`


def prepare_flow(control: Control, preparation: Preparation) -> Any:
    """Return the flow `prepare` of a prepared benchmark, which takes the settings of an evaluation."""

    async def prepare(settings: EvaluationSettings) -> Prepared:
        """Describe every column without a description.

        One call per table; descriptions are stored per database, so an interrupted preparation can continue.
        """
        control.begin_flow_run(flow_run_id())
        databases = preparation.databases
        tables = [
            (database, table)
            for database in databases.values()
            for table in database.schema.tables
            if _undescribed(table)
        ]
        prepared = Prepared(len(databases), undescribed=sum(len(_undescribed(table)) for _, table in tables))
        control.progress.questions(len(tables), 0, "table")
        async with Resources.open(settings, control) as resources:
            describer = _Describer(resources, prepared)
            tasks = [asyncio.create_task(describer.describe(database, table)) for database, table in tables]
            await until_done_or_stopped(tasks, control)
            assert resources.task_runs is not None
            await resources.task_runs.finish()
        if control.stop.is_set():
            raise Interrupted(
                "stopped. The descriptions so far are kept: run the same command again to continue.", control
            )
        if describer.fatal and not prepared.calls:
            raise describer.fatal if describer.fatal.transient else ConfigurationError(str(describer.fatal))
        await wait_until_recorded(resources.task_runs.begun, control)
        return prepared

    return as_flow(prepare, "prepare", "prepare {settings.benchmark.name} | {settings.backbone.name}")


class _Describer:
    """Describer of tables, limited to the backbone's concurrency; stores each description at once."""

    def __init__(self, resources: Resources, prepared: Prepared) -> None:
        self._resources = resources
        self._prepared = prepared
        self._gate = asyncio.Semaphore(resources.settings.backbone.most_in_flight)
        self.fatal: BackboneError | None = None  # that every further request would meet

    async def describe(self, database: Database, table: Table) -> None:
        """Describe one table, unless the user stopped it; record a failure instead of raising it."""
        async with self._gate:
            await self._describe(database, table)

    async def _describe(self, database: Database, table: Table) -> None:
        """Describe a table's columns, or note why not; after a fatal error no other table is sent."""
        # stages and records of calls belong to a question, so one stands for the table
        question = Question(id=table.name, text="", database_id=database.id)
        resources = self._resources
        control = resources.control
        prepared = self._prepared
        if control.stop.is_set():
            return
        question_run = QuestionRun(
            question, resources.results, resources.task_runs, stopped=control.stop.is_set
        )
        view = SchemaView(Schema(database.id, (table,), dialect=database.dialect), descriptions=True)
        columns = _undescribed(table)
        texts: Mapping[str, str] = {}
        failure = f"not sent, because: {self.fatal}" if self.fatal else ""
        if not failure:
            try:
                with in_question_run(question_run):
                    texts = await describe_columns(view, table.name, columns, resources.tools.backbone)
            except BackboneError as error:
                failure = str(error)
                if error.fatal and not self.fatal:
                    self.fatal = error
            except Stopped:
                return
        if failure:
            prepared.failures[f"{database.id}.{table.name}"] = failure
        else:
            prepared.left_out += len(columns) - len(texts)
        calls = [call for record in question_run.records for call in record.paid_calls]
        prepared.calls += len(calls)
        prepared.described += len(texts)
        control.progress.answered(failed=bool(failure), calls=calls)
        _keep(Path(resources.settings.home), database, table.name, texts, resources.settings.backbone.name)


def _undescribed(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if not column.description)


def _keep(home: Path, database: Database, table: str, texts: Mapping[str, str], backbone: str) -> None:
    """Add the descriptions of a table's columns to those of its database in the working folder."""
    if not texts:
        return
    new = (
        GeneratedColumn(table=table, column=column, description=text, made_by=backbone)
        for column, text in texts.items()
    )
    with locked_folder(home):  # another process may describe other tables of the database
        columns = read_generated(home, database.digest) | {column.key: column for column in new}
        write_generated(home, database.digest, columns.values(), database_id=database.id)
