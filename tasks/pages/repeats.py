"""Several runs of one system: how much they differ, and the blocks of their comparison with others."""

from collections.abc import Iterator, Sequence

from tasks.core.wording import DASH, counted, counts, money, number, percent, points, shorten
from tasks.documents.charts import Intervals
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
    Figure,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.pages.scores import TONES, difference_figure, in_words, parts_figure, point
from tasks.results.comparison import Comparison, QuestionChange
from tasks.results.noise import Noise, ProvableLoss, Stability
from tasks.scoring.repeated import POWER, RepeatedTest

SEVERAL_RUNS_TEST = Sentence(
    "A question counts by how often each side has it right. The test is the exact sign-flip test over questions: "
    "without a difference between the sides, the difference of a question has either sign with the same probability. "
    "Of one run on either side it is the exact McNemar test. The interval is drawn by bootstrap over questions. "
    "Answers of one side to one question are not counted as independent."
)


def repeated_blocks(comparison: Comparison, result: RepeatedTest, shown: int | None) -> Iterator[Block]:
    """Yield the blocks of a comparison with several runs on a side; `shown`: questions in a terminal, None for all."""
    figure = difference_figure(result, "bootstrap over questions", 0)
    yield Columns((figure, _sides(comparison, result), _runs(comparison)))
    if comparison.changes:
        yield _changes(comparison, shown)


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


def _changes(comparison: Comparison, shown: int | None) -> Table:
    runs_a, runs_b = len(comparison.a.runs), len(comparison.b.runs)
    return _questions(
        "Questions that differ",
        (Column("right in A", brief=True), Column("right in B", brief=True)),
        [
            (change, f"{change.right_a} of {runs_a}", f"{change.right_b} of {runs_b}")
            for change in comparison.changes
        ],
        "largest difference first",
        shown,
    )


def _questions(
    title: str,
    headers: tuple[Column, Column],
    questions: Sequence[tuple[QuestionChange | Stability, str, str]],
    caption: str,
    shown: int | None,
) -> Table:
    """Return a table of questions, each with two cells of its own."""
    names = (Column("question", "text"), Column("database", "text"), Column("difficulty", "text"))
    rows = tuple(
        (question.question_id, question.database, question.difficulty or "", *cells, question.question)
        for question, *cells in questions
    )
    columns = (*names, *headers, Column("text", "text"))
    more = "--all, --json or --html"
    return Table(title, columns, rows, caption, wide=True, first=shown, more=more)


UNSTABLE_SHOWN = 10


def noise_document(noise: Noise, shown: int | None = UNSTABLE_SHOWN) -> Document:
    """Return the document of a measurement; a terminal shows the first unstable questions, None for all."""
    return Document(
        f"{_share(noise.flip_rate)} of the verdicts flip between two identical runs",
        tuple(_noise_blocks(noise, shown)),
        (
            Span("Crosscheck · noise of ", "quiet"),
            Span(f"{noise.backbone} | {noise.pipeline}", "strong"),
            f" on {noise.benchmark}, revision {noise.revision} · rule {noise.rule} · "
            f"{counted(noise.questions, 'question')}, {counted(noise.runs, 'run')}",
        ),
        f"EX is {_share(noise.ex_mean)} with a standard deviation of {100 * noise.ex_sd:.2f} points between runs. One "
        f"night proves a loss of {100 * noise.night_loss:.2f} points or more in {100 * POWER:g} % of the cases.",
        footer=(Section("How it is computed", (Facts(tuple(_definitions(noise))),)),),
        name=f"Noise of {noise.backbone} | {noise.pipeline} on {noise.benchmark}",
    )


def _noise_blocks(noise: Noise, shown: int | None) -> Iterator[Block]:
    if noise.warnings:
        yield Section("Before you trust these numbers", (Bullets(noise.warnings, "warning"),), notes=True)
    yield Columns(tuple(_charts(noise)))
    yield Cards((Card("Next", tuple(_todo(noise)), wide=True),))
    yield Columns((_figures(noise), _provable(noise), _repeats(noise)))
    if noise.left_out:
        yield Sentence(
            f"{counted(len(noise.left_out), 'question')} left out, to which a repeat has no answer: "
            f"{shorten(noise.left_out, 5)}",
            "note",
        )
    if noise.unstable:
        yield _unstable(noise, shown)


def _todo(noise: Noise) -> Iterator[Sentence | Code]:
    yield Code(f"crosscheck compare {noise.run_id}:repeats RUN:repeats  # with the repeats of another run")
    more = noise.runs + 3
    yield Sentence(f"The same command with --repeats {more} makes 3 more, for narrower figures.", "note")


def _figures(noise: Noise) -> Table:
    total = noise.questions
    rows: list[tuple[str, str, str]] = [
        (
            "EX, mean of the runs",
            _share(noise.ex_mean),
            f"standard deviation {100 * noise.ex_sd:.2f} points",
        ),
        ("flip rate", _share(noise.flip_rate), f"at most {_share(noise.flip_bound)} (bound at 99.9 %)"),
        ("SQL texts that change", _share(noise.text_rate), "between two runs"),
        *(
            (f"pass^{k}", _share(share), "right in all of k runs" if k > 1 else "right in one run")
            for k, share in noise.pass_k.items()
            if k in (1, 2, noise.runs)
        ),
        (
            "majority",
            percent(noise.majority),
            f"{counts(noise.majority)} right in more than half of the runs",
        ),
        ("always right", _share(noise.always_right / total), f"{noise.always_right:,} of {total:,}"),
        ("always wrong", _share(noise.always_wrong / total), f"{noise.always_wrong:,} of {total:,}"),
        ("unstable", _share(len(noise.unstable) / total), f"{len(noise.unstable):,} of {total:,}"),
        (
            "variance due to the model",
            DASH if noise.model_share is None else f"{100 * noise.model_share:.1f} %",
            f"{noise.components.model:.4f}; of the questions {noise.components.questions:.4f}",
        ),
        (
            "standard deviation explained by flips",
            f"{100 * noise.expected_sd:.2f} points",
            "if questions flip independently of each other",
        ),
    ]
    return Table("Noise", (Column("", "text"), Column(""), Column("", "text")), tuple(rows))


def _repeats(noise: Noise) -> Table:
    rows = tuple(
        (
            str(place),
            Span(repeat.run_id, "quiet"),
            percent(repeat.ex),
            counts(repeat.ex),
            number(repeat.calls),
            money(repeat.cost_usd),
        )
        for place, repeat in enumerate(noise.repeats, 1)
    )
    original = noise.original
    last = ("repeated run", Span(noise.run_id, "quiet"), percent(original), counts(original), "", "")
    headers = (Column("repeat", "text"), Column("run", "text"), "EX", "right", "calls paid", "paid")
    return Table(
        "Runs", headers, (*rows, None, last), "the repeated run is in no figure: it may have been chosen"
    )


def _provable(noise: Noise) -> Table:
    rows = tuple(
        (_test(provable), f"{provable.level:g}", points(-provable.loss)) for provable in noise.provable
    )
    return Table(
        f"Smallest loss that is proven in {100 * POWER:g} % of the cases",
        (Column("", "text"), "level", "points"),
        rows,
        "a loss of questions that were always right",
    )


def _test(loss: ProvableLoss) -> str:
    if loss.measured:
        return "one night with new replies, by the measured flip rate"
    if loss.runs == 1:
        return "one run against one run (exact McNemar test)"
    return f"{loss.runs} runs against {loss.runs} (sign-flip test)"


def _charts(noise: Noise) -> Iterator[Figure]:
    marks = tuple(
        point(repeat.ex, "past", str(place))
        for place, repeat in enumerate(noise.repeats, 1)
        if repeat.ex.total
    )
    label = "Execution accuracy of each run: " + "; ".join(in_words(repeat.ex) for repeat in noise.repeats)
    yield Figure(
        "Execution accuracy of each run, with 95 % intervals over questions (Wilson)",
        Intervals(marks, label),
    )
    parts = (
        ("right in every run", noise.always_right, "both-right"),
        ("unstable", len(noise.unstable), "a"),
        ("wrong in every run", noise.always_wrong, "both-wrong"),
    )
    yield parts_figure("Stability of the questions", parts)


def _unstable(noise: Noise, shown: int | None) -> Table:
    return _questions(
        "Unstable questions",
        (Column("right", brief=True), Column("SQL texts")),
        [
            (question, f"{question.right} of {noise.runs}", number(question.texts))
            for question in noise.unstable
        ],
        "the least stable first",
        shown,
    )


def _definitions(noise: Noise) -> Iterator[tuple[str, str]]:
    yield (
        "flip rate",
        "The share of questions whose verdict differs between two runs, over all pairs of runs. Its bound is "
        "Chernoff's, over the questions.",
    )
    yield "pass^k", "The mean over questions of C(right, k) / C(runs, k) (Yao et al., arXiv 2406.12045)."
    yield (
        "variance",
        "One-way random-effects analysis of variance with questions as groups: the model's variance is the mean square "
        "within questions, the questions' is (mean square between - mean square within) / runs (Searle, Casella and "
        "McCulloch, 1992). The flip rate is twice the model's variance.",
    )
    yield (
        "smallest loss",
        f"For {counted(noise.questions, 'question')} and the measured flip rate, in the normal approximation of each "
        "test.",
    )


def _share(share: float) -> str:
    return f"{100 * share:.2f} %"
