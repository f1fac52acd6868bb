"""The score on corrected golds (`benchmark.golds`), beside the official one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core.wording import and_more, counts, percent, shorten
from tasks.documents.model import Table
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore, Ratio, is_right, is_right_corrected

MOST_IDS, MOST_ROWS = 10, 100


@dataclass(frozen=True, slots=True)
class CorrectedGolds:
    """Where corrections come from.

    Attributes:
        file: path of the file.
        sha256: its checksum.
        undecided: number of entries that wait for a person, and change nothing.
    """

    file: str
    sha256: str
    undecided: int


@dataclass(frozen=True, slots=True)
class Differing:
    """Ids of scored questions on which the corrected verdict is another than the official one, by what it is now."""

    now_right: tuple[str, ...]
    now_wrong: tuple[str, ...]
    withdrawn: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.now_right) + len(self.now_wrong) + len(self.withdrawn)

    def in_words(self, most: int = MOST_IDS) -> str:
        """List them, `right now: 3, 4; withdrawn: 7`; "" where there is none."""
        named = (("right now", self.now_right), ("wrong now", self.now_wrong), ("withdrawn", self.withdrawn))
        return "; ".join(f"{name}: {shorten(ids, most)}" for name, ids in named if ids)


def differing(rows: Sequence[QuestionScore], rule: str) -> Differing:
    """Return the questions on which the two verdicts differ; a withdrawn one always does."""
    changed = [(row, is_right_corrected(row, rule)) for row in rows if row.executable and row.correction]
    official = {row.question.id: is_right(row.final, rule) for row, _ in changed}
    return Differing(
        tuple(row.question.id for row, now in changed if now and not official[row.question.id]),
        tuple(row.question.id for row, now in changed if now is False and official[row.question.id]),
        tuple(row.question.id for row, now in changed if now is None),
    )


def corrected_ex(rows: Sequence[QuestionScore], rule: str) -> Ratio:
    """Return execution accuracy on corrected golds: of the scored questions without the withdrawn ones."""
    rights = [is_right_corrected(row, rule) for row in rows if row.executable]
    return Ratio(sum(bool(right) for right in rights), sum(right is not None for right in rights))


@METRICS.register("ex_corrected")
@metric("Execution accuracy on corrected golds", needs=("measured:corrected_golds",), order=1)
def ex_corrected(run: ScoredRun) -> Measurement:
    """Report execution accuracy on corrected golds under every rule, and on which questions it differs."""
    golds: CorrectedGolds = run.measured["corrected_golds"]
    rules = {rule: corrected_ex(run.scored, rule) for rule in run.report.rules}
    ratio, found = rules[run.rule], differing(run.scored, run.rule)
    kinds = Counter(row.correction.change for row in run.scored if row.correction)
    done = ", ".join(f"{count} {name}" for name, count in kinds.items())
    changed = {row.question.id: row for row in run.scored if row.correction}
    return Measurement(
        ratio,
        by_question={row.question.id: is_right_corrected(row, run.rule) for row in run.scored},
        further={
            "ex_corrected_correct": ratio.correct,
            "ex_corrected_total": ratio.total,
            "questions/corrected_differs": found.count,
        },
        data={
            **ratio.as_object(),
            "file": golds.file,
            "sha256": golds.sha256,
            "undecided": golds.undecided,
            "rules": {rule: each.as_object() for rule, each in rules.items()},
            "corrections": {name: row.correction.change for name, row in changed.items() if row.correction},
            "now_right": list(found.now_right),
            "now_wrong": list(found.now_wrong),
            "withdrawn": list(found.withdrawn),
        },
        lines=(
            f"On corrected golds: {percent(ratio)} ({counts(ratio)}), official {percent(run.report.score)} "
            f"({counts(run.report.score)}); {done or 'no question asked is corrected'}",
            *([f"Corrected golds differ: {found.in_words()}"] if found.count else []),
            *([f"Undecided corrections, which change nothing: {golds.undecided}"] if golds.undecided else []),
        ),
        tables=(_by_rule(run, rules), *([_by_question(run, list(changed.values()))] if changed else [])),
    )


def _by_rule(run: ScoredRun, corrected: dict[str, Ratio]) -> Table:
    rows = tuple(
        (rule, percent(official), counts(official), percent(corrected[rule]), counts(corrected[rule]))
        for rule, official in run.report.rules.items()
    )
    return Table("Official and corrected golds", ("rule", "EX", "right", "corrected", "right"), rows)


def _by_question(run: ScoredRun, changed: Sequence[QuestionScore]) -> Table:
    words = {True: "right", False: "wrong", None: "not counted"}
    rows = tuple(
        (
            row.question.id,
            row.correction.change if row.correction else "",
            words[is_right(row.final, run.rule)],
            words[is_right_corrected(row, run.rule)],
        )
        for row in changed[:MOST_ROWS]
    )
    rest = and_more(changed, MOST_ROWS)
    return Table(
        "Corrected questions",
        ("question", "gold", "official", "corrected"),
        rows,
        f"{rest}: `--json` lists all" if rest else "",
    )
