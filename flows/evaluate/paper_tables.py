"""The papers' tables of finished runs: steps and ablations by difficulty, linking, efficiency, cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, computed_field

from flows.runtime.folders import Folders
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import CrosscheckError, DataError
from tasks.core.outcome import Call
from tasks.core.wording import UNKNOWN, counted, percent_and_counts, points
from tasks.database.schema import Schema
from tasks.documents.model import Column, Table
from tasks.results.run_record import FINISHED, RunRecord
from tasks.scoring.breakdown import by_grade, stage_names
from tasks.scoring.cost import total
from tasks.scoring.linking import printed_recall
from tasks.scoring.metrics.efficiency import TITLES
from tasks.scoring.scores import QuestionScore, Ratio, is_right

TOTAL = "total"
SQL2 = "augmented_sql"
"""Stage that writes what the RSL-SQL paper calls SQL2."""
Cell = Ratio | float | Mapping[str, Any] | str | None
"""A share with its counts, a number, a mean with its range, or a text; None: unknown."""


@dataclass(frozen=True)
class PaperTable:
    """A table as a paper prints it."""

    title: str
    columns: Annotated[tuple[str, ...], Field(exclude=True)]  # the first column holds names
    # name, and a cell for each further column
    lines: Annotated[tuple[tuple[str, Sequence[Cell]], ...], Field(exclude=True)]
    note: str = ""

    def as_table(self) -> Table:
        """Return it with texts as cells."""
        first, *others = self.columns
        columns = (Column(first, "text"), *(Column(name, brief=name == TOTAL) for name in others))
        rows = tuple((name, *map(_text, cells)) for name, cells in self.lines)
        return Table(self.title, columns, rows, self.note, wide=True)

    @computed_field
    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its lines with their cells by column; null is unknown."""
        names = self.columns[1:]
        return [{"name": name, "cells": dict(zip(names, cells, strict=True))} for name, cells in self.lines]


@dataclass(frozen=True)
class PaperRun:
    """A finished run, with what the tables show of it."""

    name: str  # how tables call it: A, B, ...
    record: RunRecord
    schemas: Mapping[str, Schema] = field(repr=False, default_factory=dict)  # {} if they cannot be read

    @property
    def title(self) -> str:
        """Backbone, pipeline, changed settings, benchmark and id."""
        run = self.record
        changed = f", {run.tags['changed']}" if run.tags.get("changed") else ""
        return f"{run.name}{changed} on {run.benchmark} ({counted(len(self.rows), 'question')}), run {run.run_id}"

    @property
    def rows(self) -> tuple[QuestionScore, ...]:
        """Its scored questions."""
        return tuple(row for row in self.record.rows if row.executable)

    @property
    def groups(self) -> dict[str, Sequence[QuestionScore]]:
        """Its scored questions by difficulty, easiest first, and all of them under "total"."""
        return {**by_grade(self.rows), TOTAL: self.rows}

    def right(self, rows: Sequence[QuestionScore] | None, stage: str | None = None) -> Ratio | None:
        """Return the share of right SQL after a stage, or of the final SQL; a stage not reached is wrong."""
        if not rows:
            return None
        verdicts = (row.final if stage is None else row.stages.get(stage) for row in rows)
        return Ratio(sum(is_right(verdict, self.record.rule) for verdict in verdicts), len(rows))


def paper_runs(records: Sequence[RunRecord], folders: Folders) -> tuple[PaperRun, ...]:
    """Return runs, which must be finished, with the schemas of their databases, named A, B, ... in their order."""
    runs = []
    for position, run in enumerate(records):
        if run.status not in FINISHED:
            raise DataError(f"The run {run.run_id} is not finished ({run.status}): it has no result yet.")
        try:
            schemas = schemas_of(run, folders)
        except CrosscheckError:  # tables that need no schema are made all the same
            schemas = {}
        letter = chr(ord("A") + position % 26)
        runs.append(PaperRun(f"{letter}{position // 26 or ''}", run, schemas))
    return tuple(runs)


def schemas_of(record: RunRecord, folders: Folders) -> dict[str, Schema]:
    """Return the schemas of a run's databases, as its evaluation had them."""
    benchmark = folders.benchmark_of(record)
    names = dict.fromkeys(row.question.database_id for row in record.rows if row.executable)
    schemas = {}
    for name in names:
        if benchmark.exists(name):
            schemas[name] = open_benchmark_database(benchmark, name, 0).schema
        elif name in benchmark.schemas:
            schemas[name] = benchmark.schemas[name]
    return schemas


def paper_tables(runs: Sequence[PaperRun]) -> Iterator[PaperTable]:
    """Yield the tables of runs that have something to show; ablations are compared with the first run."""
    for run in runs:
        yield _steps(run)
    if len(runs) > 1:
        yield _ablations(runs)
    for run in runs:
        if run.record.links:
            yield _linking(run)
    if any(run.record.metrics.get("figures") for run in runs):
        yield _figures(runs)
    if any(run.record.metrics.get("efficiency") for run in runs):
        yield _efficiency(runs)
    yield _cost(runs)


def _steps(run: PaperRun) -> PaperTable:
    groups = run.groups
    names: list[str | None] = [*stage_names(run.rows)]
    # The final answer, None, has a row of its own where its score is not that of the last stage.
    if not names or run.right(run.rows, names[-1]) != run.right(run.rows):
        names.append(None)
    rows = tuple(
        (name or "final answer", [run.right(group, name) for group in groups.values()]) for name in names
    )
    title = f"Execution accuracy by step and difficulty: {run.name}"
    return PaperTable(title, ("step", *groups), rows, f"Rule {run.record.rule}.")


def _ablations(runs: Sequence[PaperRun]) -> PaperTable:
    """Compare every run with the first; the change is unknown unless both have scored the same questions."""
    grades = _grades(runs)
    first = runs[0]
    first_ids = {row.question.id for row in first.rows}
    rows = []
    for run in runs:
        groups = run.groups
        accuracy = run.right(run.rows)
        first_accuracy = first.right(first.rows)
        has_same_questions = {row.question.id for row in run.rows} == first_ids
        change = None
        if accuracy and first_accuracy and has_same_questions:
            change = points(accuracy.correct / accuracy.total - first_accuracy.correct / first_accuracy.total)
        cells = [run.right(groups.get(grade)) for grade in grades]
        rows.append((run.name, [*cells, "" if run is first else change]))
    return PaperTable(
        "Ablations: execution accuracy of the final answer by difficulty",
        ("run", *grades, "change"),
        tuple(rows),
        "Change: points against the first run, unknown if the questions differ. `crosscheck compare` says whether it "
        "is more than noise.",
    )


def _linking(run: PaperRun) -> PaperTable:
    columns = ("link", "NSR", "strict recall", "SRR as the paper prints it", "precision", "tables", "columns")
    rows = []
    for link in run.record.links:
        printed = _printed_recall(run, link.name)
        cells = [link.nsr, link.strict_recall, printed, link.precision, link.avg_tables, link.avg_columns]
        rows.append((link.name, cells))
    note = (
        "Strict recall: all gold columns are linked. What the RSL-SQL paper prints as SRR also counts questions whose "
        "SQL2 is right. It is known for the link that SQL2 is generated from (pipeline.linking.directions)."
    )
    return PaperTable(f"Schema linking: {run.name}", columns, tuple(rows), note)


def _printed_recall(run: PaperRun, link: str) -> Ratio | None:
    linking = run.record.settings_of("pipeline").get("linking") or {}
    stage = next((name for name in stage_names(run.rows) if name.endswith(SQL2)), None)
    if stage is None or link != linking.get("directions") or not run.schemas:
        return None
    return printed_recall(run.rows, run.schemas, link=link, stage=stage, rule=run.record.rule)


def _figures(runs: Sequence[PaperRun]) -> PaperTable:
    by_run = [run.record.metrics.get("figures") or {} for run in runs]
    names = dict.fromkeys(name for figures in by_run for name in figures)
    rows = tuple((name, [_figure(figures.get(name)) for figures in by_run]) for name in names)
    note = (
        "Macro figures: means over questions. Linked entities are compared with the tables and columns of the gold "
        "SQL. DAC's Table 5 compares them with people's labels, so its figures are others."
    )
    title = "What DAC and SEA-SQL report of their stages"
    return PaperTable(title, ("figure", *(run.name for run in runs)), rows, note)


def _figure(value: Any) -> Cell:
    return Ratio(value["correct"], value["total"]) if isinstance(value, Mapping) else value


def _efficiency(runs: Sequence[PaperRun]) -> PaperTable:
    grades = _grades(runs)
    rows = []
    for run in runs:
        efficiency = run.record.metrics.get("efficiency") or {}
        by_difficulty = efficiency.get("by_difficulty") or {}
        for key, name in TITLES.items():
            cells = [
                efficiency.get(key) if grade == TOTAL else by_difficulty.get(grade, {}).get(key)
                for grade in grades
            ]
            rows.append((f"{run.name}: {name}", cells))
    note = (
        "In brackets: the lowest and the highest of the measurements. Another run may differ by more, above all on "
        "a busy machine. ves_steps repeats exactly."
    )
    return PaperTable("Efficiency by difficulty", ("", *grades), tuple(rows), note)


def _cost(runs: Sequence[PaperRun]) -> PaperTable:
    names = ("EX", "calls", "input tokens", "output tokens", "USD", "USD, all questions")
    by_run = [[run.right(run.rows), *_costs(run)] for run in runs]
    rows = tuple((name, [cells[column] for cells in by_run]) for column, name in enumerate(names))
    note = "Calls, tokens and USD: per question, as of a run with an empty reply cache."
    return PaperTable("Cost of a question", ("", *(run.name for run in runs)), rows, note)


def _costs(run: PaperRun) -> list[Cell]:
    """Return calls, tokens and money of a question, and the money of all."""
    calls = [call for row in run.rows for record in row.outcome.stages for call in record.calls]
    size = len(run.rows)
    usd = run.record.cost.from_scratch_usd
    if not calls or not size:
        return [None] * 5

    def per_question(tokens: Callable[[Call], int | None]) -> float | None:
        count = total([tokens(call) for call in calls])
        return None if count is None else count / size

    tokens = (per_question(lambda call: call.usage.input), per_question(lambda call: call.usage.output))
    return [len(calls) / size, *tokens, None if usd is None else usd / size, usd]


def _grades(runs: Sequence[PaperRun]) -> list[str]:
    return [*dict.fromkeys(grade for run in runs for grade in run.groups if grade != TOTAL), TOTAL]


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return UNKNOWN
        case str():
            return cell
        case Ratio():
            return percent_and_counts(cell)
        case int():
            return f"{cell:,}"
        case float():
            # US dollars per question may be less than a cent
            return f"{cell:,.2f}" if abs(cell) >= 0.01 or cell == 0 else f"{cell:.6f}"
        case _:  # a mean with its range
            return f"{cell['mean']:.2f} ({cell['low']:.2f}–{cell['high']:.2f})"
