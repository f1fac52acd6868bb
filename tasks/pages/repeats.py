"""Several runs of one system: how much they differ, and the blocks of their comparison with others."""

from collections.abc import Iterator, Sequence

from tasks.core.wording import DASH, counted, counts, money, number, percent, shorten
from tasks.documents.model import (
    Block,
    Bullets,
    Card,
    Cards,
    Code,
    Column,
    Columns,
    Document,
    Facts,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.pages.scores import TONES, difference_figure
from tasks.results.comparison import Comparison, QuestionChange
from tasks.results.noise import Noise, Stability
from tasks.scoring.repeated import POWER, RepeatedTest
from tasks.settings.choices import Gate

SEVERAL_RUNS_TEST = Sentence(
    "A question counts by how often each side has it right. The test is the exact sign-flip test over questions: "
    "without a difference between the sides, the difference of a question has either sign with the same probability. "
    "Of one run on either side it is the exact McNemar test. The interval is drawn by bootstrap over questions; "
    "where all questions have the same difference it is Tango's score interval. "
    "Answers of one side to one question are not counted as independent."
)


def cautions(sentences: tuple[str, ...]) -> Section:
    """Return what a reader must know before the numbers."""
    return Section("Before you trust these numbers", (Bullets(sentences, "warning"),), notes=True)


def repeated_blocks(comparison: Comparison, result: RepeatedTest, first: int | None) -> Iterator[Block]:
    """Yield the blocks of a comparison with several runs on a side; `first`: questions in a terminal, None for all."""
    figure = difference_figure(result, 0)
    yield Columns((figure, _sides(comparison, result), _runs(comparison)))
    if comparison.changes:
        yield _changes(comparison, first)


def _sides(comparison: Comparison, result: RepeatedTest) -> Table:
    rows = tuple(
        (
            Span(side.letter, TONES[side.letter], "letter"),
            side.name,
            str(len(side.runs)),
            Span(f"{100 * mean:.2f} %", "strong"),
            DASH if side.sd is None else f"{100 * side.sd:.2f}",
        )
        for side, mean in ((comparison.a, result.mean_a), (comparison.b, result.mean_b))
    )
    headers = (
        Column("", "text"), Column("backbone | pipeline", "text"), "runs", "mean EX", "standard deviation",
    )  # fmt: skip
    return Table("", headers, rows, "standard deviation between the runs of a side, in points")


def _runs(comparison: Comparison) -> Table:
    rows = tuple(
        (
            side.letter,
            Span(run.run_id, "quiet"),
            percent(run.ex),
            counts(run.ex),
            "" if run.status == "complete" else run.status,
        )
        for side in (comparison.a, comparison.b)
        for run in side.runs
    )
    headers = (Column("", "text"), Column("run", "text"), "EX", "right", Column("", "text"))
    return Table("Runs", headers, rows)


def _changes(comparison: Comparison, first: int | None) -> Table:
    runs_a, runs_b = len(comparison.a.runs), len(comparison.b.runs)
    return _questions_table(
        "Questions that differ",
        (Column("right in A", brief=True), Column("right in B", brief=True)),
        [
            (change, f"{change.right_a} of {runs_a}", f"{change.right_b} of {runs_b}")
            for change in comparison.changes
        ],
        "largest difference first",
        first,
        more="--all, --json or --html",
    )


def _questions_table(
    title: str,
    headers: tuple[Column, ...],
    questions: Sequence[tuple[QuestionChange | Stability, *tuple[str, ...]]],
    caption: str,
    first: int | None,
    more: str,
) -> Table:
    """Return a table of questions, each with a cell of its own below each header; `more` names the options for all."""
    names = (Column("question", "text"), Column("database", "text"), Column("difficulty", "text"))
    rows = tuple(
        (question.question_id, question.database, question.difficulty or "", *cells, question.question)
        for question, *cells in questions
    )
    columns = (*names, *headers, Column("text", "text"))
    return Table(title, columns, rows, caption, wide=True, first=first, more=more)


def noise_document(noise: Noise, first: int | None = 10) -> Document:
    """Return the document of a measurement; a terminal shows the `first` unstable questions, or all."""
    return Document(
        f"{_share(noise.flip_rate)} of the verdicts flip between two identical runs",
        tuple(_noise_blocks(noise, first)),
        (
            Span("Crosscheck · noise of ", "quiet"),
            Span(f"{noise.backbone} | {noise.pipeline}", "strong"),
            f" on {noise.benchmark}, revision {noise.revision} · rule {noise.rule} · "
            f"{counted(noise.questions, 'question')}, {counted(noise.runs, 'run')}",
        ),
        f"EX is {_share(noise.ex_mean)} with a standard deviation of {100 * noise.ex_sd:.2f} points between runs. "
        + noise.proves,
        footer=(Section("How it is computed", (Facts(tuple(_definitions(noise))),)),),
        name=f"Noise of {noise.backbone} | {noise.pipeline} on {noise.benchmark}",
    )


def _noise_blocks(noise: Noise, first: int | None) -> Iterator[Block]:
    if noise.warnings:
        yield cautions(noise.warnings)
    compared = f"crosscheck compare {noise.run_id}:repeats RUN:repeats  # with the repeats of another run"
    more = f"The same command with --repeats {noise.runs + 3} makes 3 more, for narrower figures."
    yield Cards((Card("Next", (Code(compared), Sentence(more, "note")), wide=True),))
    yield Columns((_figures(noise), _repeats(noise)))
    if noise.left_out:
        yield Sentence(
            f"{counted(len(noise.left_out), 'question')} left out, to which a repeat has no answer: "
            f"{shorten(noise.left_out, 5)}",
            "note",
        )
    if noise.unstable:
        yield _questions_table(
            "Unstable questions",
            (Column("right", brief=True),),
            [(question, f"{question.right} of {noise.runs}") for question in noise.unstable],
            "the least stable first",
            first,
            more="--json",
        )


def _figures(noise: Noise) -> Table:
    deviation = f"standard deviation {100 * noise.ex_sd:.2f} points"
    by_rate, by_mcnemar = (
        "none" if loss is None else f"{100 * loss:.2f} points" for loss in (noise.by_rate, noise.by_mcnemar)
    )
    parts = (
        ("always right", noise.always_right),
        ("always wrong", noise.always_wrong),
        ("unstable", len(noise.unstable)),
    )
    rows = (
        ("EX, mean of the runs", _share(noise.ex_mean), deviation),
        ("flip rate", _share(noise.flip_rate), f"at most {_share(noise.flip_bound)} (bound at 99.9 %)"),
        *(
            (f"pass^{k}", _share(share), "right in all of k runs" if k > 1 else "right in one run")
            for k, share in noise.pass_k.items()
            if k in (1, 2, noise.runs)
        ),
        *(
            (name, _share(count / noise.questions), f"{count:,} of {noise.questions:,}")
            for name, count in parts
        ),
        ("smallest provable loss", by_rate, "one night, by the measured flip rate"),
        ("", by_mcnemar, "one run against one run, by the exact McNemar test"),
    )
    return Table("Noise", (Column("figure", "text"), Column("value"), Column("", "text")), rows)


def _repeats(noise: Noise) -> Table:
    rows = tuple(
        (
            str(position),
            Span(repeat.run_id, "quiet"),
            percent(repeat.ex),
            counts(repeat.ex),
            number(repeat.calls),
            money(repeat.cost_usd),
        )
        for position, repeat in enumerate(noise.repeats, 1)
    )
    headers = (Column("repeat", "text"), Column("run", "text"), "EX", "right", "calls paid", "paid")
    caption = "No figure includes the repeated run, which may have been chosen for its score."
    return Table("Runs", headers, rows, caption)


def _definitions(noise: Noise) -> Iterator[tuple[str, str]]:
    yield (
        "flip rate",
        "The share of questions whose verdict differs between two runs, over all pairs of runs. Its bound is "
        "Chernoff's, over the questions.",
    )
    yield "pass^k", "The mean over questions of C(right, k) / C(runs, k) (Yao et al., arXiv 2406.12045)."
    yield (
        "smallest provable loss",
        f"A loss of questions that were always right, proven in {100 * POWER:g} % of the cases at the level "
        f"{Gate().level:g} of nightly runs, for {counted(noise.questions, 'question')} and the measured flip rate.",
    )


def _share(share: float) -> str:
    return f"{100 * share:.2f} %"
