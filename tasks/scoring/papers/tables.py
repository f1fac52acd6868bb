"""The papers' own tables, from finished runs: steps and ablations by difficulty, linking, efficiency, cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tasks.core.outcome import Call
from tasks.core.wording import DASH, points
from tasks.scoring.build_report import stage_names
from tasks.scoring.linking import printed_recall, score_links
from tasks.scoring.papers.cells import Cell, PaperTable, count, figure, share, table, text, unknown
from tasks.scoring.papers.dac_tables import dac_tables
from tasks.scoring.papers.run import TOTAL, PaperRun, grades_of
from tasks.scoring.papers.sea_figures import ADJUSTMENT, ELIMINATION, sea_figures

Paper = Literal["rsl-sql", "sea-sql", "dac"]
STEPS: Mapping[Paper, str] = {
    "rsl-sql": "RSL-SQL, Tables IV, VI and VII",
    "sea-sql": "SEA-SQL, Tables 3 and 4",
    "dac": "DAC, Table 8",
}
SQL2 = "augmented_sql"
ELIMINATED = {
    "asked": "eliminator: questions asked",
    "changed": "SQL changed",
    "kept": "no usable answer",
    "fixed": "fixed",
    "broken": "broken",
}
ADJUSTED = {
    "failing_before": "adjustment: failing before",
    "failing_after": "failing after",
    "adjusted": "adjusted",
    "fixed": "fixed",
    "broken": "broken",
}
NOT_MEASURED = "run times were not measured: evaluate with --set benchmark.efficiency=true"


def paper_tables(runs: Sequence[PaperRun], paper: Paper) -> tuple[PaperTable, ...]:
    """Return the tables of a paper for finished runs, in their order; ablations are compared with the first one."""
    return tuple(_tables(tuple(runs), paper))


def in_paper(one: PaperTable, runs: Sequence[PaperRun]) -> tuple[str, tuple[str, ...]]:
    """Return the caption and the notes of a table that stands in a paper, where nothing else says what A is."""
    for run in runs:
        if one.title.endswith(suffix := f": {run.name}"):
            named = run.label if len(runs) == 1 else f"{run.label} ({run.name})"
            return f"{one.title.removesuffix(suffix)}: {named}", one.remarks
    return one.title, ("; ".join(f"{run.name}: {run.label}" for run in runs), *one.remarks)


def _tables(runs: tuple[PaperRun, ...], paper: Paper) -> Iterator[PaperTable]:
    for run in runs:
        yield steps(run, paper)
    if len(runs) > 1:
        yield ablations(runs)
    if paper == "rsl-sql":
        for run in runs:
            yield linking(run)
    if paper == "sea-sql":
        yield refinements(runs)
    if paper == "dac":
        for run in runs:
            yield from dac_tables(run)
    yield efficiency(runs)
    yield cost(runs)


def steps(run: PaperRun, paper: Paper) -> PaperTable:
    """Execution accuracy after every step, by difficulty."""
    groups = run.groups
    names: list[str | None] = [*stage_names(run.rows)]
    if not names or run.right(run.rows, names[-1]) != run.right(run.rows):
        names.append(None)
    rows = [
        (name or "final answer", [share(run.right(rows, name)) for rows in groups.values()]) for name in names
    ]
    title = f"Execution accuracy by step and difficulty ({STEPS[paper]}): {run.name}"
    return table(title, ("step", *groups), rows, f"rule {run.rule}; in brackets: right / questions")


def ablations(runs: tuple[PaperRun, ...]) -> PaperTable:
    """Execution accuracy of every run by difficulty, with the settings in which it differs from the first."""
    grades = grades_of(runs)
    first = runs[0]
    asked = {row.question.id for row in first.rows}
    rows = []
    for run in runs:
        groups = run.groups
        cells = [
            share(run.right(groups[g])) if g in groups else unknown("no question of this kind")
            for g in grades
        ]
        total, base = run.right(run.rows).value, first.right(first.rows).value
        same = {row.question.id for row in run.rows} == asked
        if run is first:
            change = text("")
        elif same and total is not None and base is not None:
            change = Cell(points(total - base), total - base)
        else:
            change = unknown("the run has other questions than the first one")
        rows.append((run.name, [*cells, change]))
    title = "Ablations: execution accuracy of the final answer by difficulty"
    return table(
        title, ("run", *grades, "change"), rows,
        "change: points against the first run; `crosscheck compare` says whether it is more than noise",
        *(f"{run.name}, changed: {', '.join(run.changes)}" for run in runs if run.changes),
    )  # fmt: skip


def linking(run: PaperRun) -> PaperTable:
    """Schema linking of every link (RSL-SQL, section 4), with both readings of the strict recall rate."""
    columns = ("link", "NSR", "strict recall", "SRR as the paper prints it", "precision", "tables", "columns")
    title = f"Schema linking (RSL-SQL): {run.name}"
    names = dict.fromkeys(name for row in run.rows for name in row.outcome.links)
    if not names:
        why = "the pipeline links no schema"
        return table(title, columns, [(DASH, [unknown(why)] * 6)])
    if run.schemas_missing:
        return table(title, columns, [(name, [unknown(run.schemas_missing)] * 6) for name in names])
    rows = [
        (
            link.name,
            [
                share(link.nsr), share(link.strict_recall), _printed_srr(run, link.name), share(link.precision),
                figure(link.avg_tables), figure(link.avg_columns),
            ],
        )
        for link in score_links(run.rows, run.schemas)
    ]  # fmt: skip
    return table(
        title, columns, rows,
        "strict recall: the paper's equation, all gold columns linked; what the paper prints as SRR also counts "
        "questions whose SQL2, generated from that link, is right",
    )  # fmt: skip


def _printed_srr(run: PaperRun, link: str) -> Cell:
    used = run.setting("pipeline", "linking", "directions")
    stage = next((name for name in stage_names(run.rows) if name.endswith(SQL2)), None)
    if stage is None:
        return unknown("the run has no SQL2")
    if link != used:
        return unknown(
            f"SQL2 was generated from the link {used}; for another: --set pipeline.linking.directions={link}"
        )
    return share(printed_recall(run.rows, run.schemas, link=link, stage=stage, rule=run.rule))


def refinements(runs: tuple[PaperRun, ...]) -> PaperTable:
    """What SEA-SQL's two refinements changed, a column per run."""
    found = {run.name: sea_figures(run.rows, run.rule) for run in runs}

    def row(stage: str, name: str, why: str) -> list[Cell]:
        values = [figures.get(f"sea/{stage}/{name}") for figures in found.values()]
        return [unknown(why) if value is None else count(value) for value in values]

    no_elimination = "no eliminator was configured, or bias elimination was switched off"
    no_adjustment = "the pipeline has no execution adjustment, or it was switched off"
    rows = [
        *((title, row(ELIMINATION, name, no_elimination)) for name, title in ELIMINATED.items()),
        *((title, row(ADJUSTMENT, name, no_adjustment)) for name, title in ADJUSTED.items()),
    ]
    return table("Bias elimination and execution adjustment (SEA-SQL)", ("", *found), rows)


def efficiency(runs: tuple[PaperRun, ...]) -> PaperTable:
    """VES and R-VES by difficulty."""
    grades = grades_of(runs)
    rows = []
    for run in runs:
        for key, name in (("ves", "VES"), ("ves_fetched", "VES with fetching"), ("r_ves", "R-VES")):
            rows.append((f"{run.name}: {name}", [_efficiency(run, key, grade) for grade in grades]))
            median = [_efficiency(run, f"{key}_median", grade) for grade in grades]
            rows.append((f"{run.name}: {name} of median times", median))
        rows.append((f"{run.name}: ves_steps", [_efficiency(run, "ves_steps", grade) for grade in grades]))
    return table(
        "Efficiency by difficulty", ("", *grades), rows,
        "in brackets: lowest and highest of the run's measurements; another run may differ by more, above all on a "
        "busy machine. ves_steps repeats exactly",
    )  # fmt: skip


def _efficiency(run: PaperRun, key: str, grade: str) -> Cell:
    if not run.efficiency:
        return unknown(NOT_MEASURED)
    found = run.efficiency if grade == TOTAL else run.efficiency.get("by_difficulty", {}).get(grade, {})
    value: Any = found.get(key)
    if value is None:
        return unknown("not in the run's summary: no question of this kind")
    if isinstance(value, Mapping):
        return Cell(f"{value['mean']:.2f} ({value['low']:.2f}–{value['high']:.2f})", value["mean"])
    return figure(float(value))


def cost(runs: tuple[PaperRun, ...]) -> PaperTable:
    """Calls, tokens and money of a question beside the scores, a column per run."""
    parts = ("EX", "VES", "R-VES", "calls", "input tokens", "output tokens", "USD", "USD, all questions")
    found = [
        [
            share(run.right(run.rows)),
            _efficiency(run, "ves", TOTAL),
            _efficiency(run, "r_ves", TOTAL),
            *_costs(run),
        ]
        for run in runs
    ]
    rows = [(part, [cells[place] for cells in found]) for place, part in enumerate(parts)]
    return table(
        "Cost of a question beside the scores", ("", *(run.name for run in runs)), rows,
        "calls, tokens and USD: per question, with what the cache served, as of a run without a cache",
    )  # fmt: skip


def _costs(run: PaperRun) -> list[Cell]:
    calls = [call for row in run.rows for record in row.outcome.stages for call in record.calls]
    if not run.rows:
        return [unknown("no question")] * 5
    if not calls:
        return [unknown("the run has no model calls: predictions were made elsewhere")] * 5
    size = len(run.rows)

    def per_question(of: Callable[[Call], int | None]) -> Cell:
        values = [of(call) for call in calls]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return unknown("the backbone does not report the tokens of every call")
        return figure(sum(known) / size, ",.1f")

    prices = [call.cost_usd for call in calls]
    paid = [price for price in prices if price is not None]
    money = [figure(sum(paid) / size, ".6f"), figure(sum(paid), ".4f")]
    if cached := sum(call.cached for call in calls):
        why = f"{cached:,} of {len(calls):,} replies came from the cache, and their price is not in the run"
        money = [unknown(why)] * 2
    elif len(paid) < len(prices):
        why = (
            "a call has no price: its model is not the one of `prices`, or the endpoint reported no tokens"
            if run.setting("backbone", "prices")
            else "the backbone's settings have no `prices`"
        )
        money = [unknown(why)] * 2
    tokens = (per_question(lambda call: call.usage.input), per_question(lambda call: call.usage.output))
    return [figure(len(calls) / size), *tokens, *money]
