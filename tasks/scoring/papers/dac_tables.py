"""DAC's own tables: entity linking, skeletons, and errors before and after the correction, by hardness."""

from collections.abc import Iterator

from tasks.scoring.papers.cells import Cell, PaperTable, count, figure, table, unknown
from tasks.scoring.papers.dac_figures import dac_figures
from tasks.scoring.papers.run import PaperRun

NOT_DAC = "no question of the run was corrected by decomposition"
NOT_ASKED = "switched off, or taken from the gold"
LINKING = {
    "macro_precision": "macro P",
    "macro_recall": "macro R",
    "macro_f1": "macro F",
    "precision": "micro P",
    "recall": "micro R",
    "f1": "micro F",
}
SKELETONS = {
    "dac/before/skeleton": "skeleton of the SQL before",
    "dac/parsed_skeleton": "parsed skeleton",
    "dac/after/skeleton": "skeleton of the SQL after",
    "dac/right_of_right_subtasks": "right, of those with right linked entities and parsed skeleton",
    "dac/after/right_of_right_parts": "right, of those whose SQL has right entities and skeleton",
}
KINDS = ("table", "column", "skeleton", "execution")


def dac_tables(run: PaperRun) -> Iterator[PaperTable]:
    """Yield DAC's tables of a run; their cells are unknown where they cannot be computed."""
    found = {grade: dac_figures(rows, run.rule, run.schemas) for grade, rows in run.groups.items()}

    def cell(grade: str, name: str) -> Cell:
        if not found[grade]:
            return unknown(run.schemas_missing or NOT_DAC)
        value = found[grade].get(name)
        return unknown(NOT_ASKED) if value is None else count(value)

    linking = [
        (
            f"{which}, {grade}",
            [_in_percent(cell(grade, f"dac/linking_{which}/{name}")) for name in LINKING],
        )
        for which in ("tables", "columns")
        for grade in found
    ]
    yield table(
        f"Entity linking (DAC, Table 5): {run.name}", ("", *LINKING.values()), linking,
        f"macro, as in the paper: means over {len(run.rows):,} questions; micro: over all entities",
    )  # fmt: skip
    skeletons = [(title, [cell(grade, name) for grade in found]) for name, title in SKELETONS.items()]
    yield table(f"Right skeletons by hardness (DAC): {run.name}", ("", *found), skeletons)
    errors = [
        (f"{kind} error, {when}", [cell(grade, f"dac/{when}/errors_{kind}") for grade in found])
        for kind in KINDS
        for when in ("before", "after")
    ]
    yield table(
        f"Wrong answers by kind of error and hardness, before and after correction (DAC): {run.name}",
        ("", *found), errors, "one answer can count in several kinds",
    )  # fmt: skip


def _in_percent(cell: Cell) -> Cell:
    """Return a share as a number in percent: its numerator may be a sum of shares."""
    return cell if cell.value is None else figure(100 * cell.value)
