"""The noise of an evaluation as a document."""

from collections.abc import Iterator

from tasks.core.wording import DASH, counted, counts, money, number, percent, points, shorten
from tasks.documents.charts import Intervals, Parts
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
    Legend,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.scoring.statistics.noise import POWER
from tasks.tracking.comparison.figures import in_words
from tasks.tracking.comparison.score_plots import point
from tasks.tracking.repeats.noise import Noise, ProvableLoss

UNSTABLE_SHOWN = 10


def noise_document(found: Noise, shown: int | None = UNSTABLE_SHOWN) -> Document:
    """Return the document of a measurement; a terminal shows the first unstable questions, None for all."""
    return Document(
        f"{_share(found.flip_rate)} of the verdicts flip between two identical runs",
        tuple(_blocks(found, shown)),
        (
            Span("Crosscheck · noise of ", "quiet"),
            Span(f"{found.backbone} | {found.pipeline}", "strong"),
            f" on {found.benchmark}, revision {found.revision} · rule {found.rule} · "
            f"{counted(found.questions, 'question')}, {counted(found.runs, 'run')}",
        ),
        f"EX is {_share(found.ex_mean)} with a standard deviation of {100 * found.ex_sd:.2f} points between runs. One "
        f"night proves a loss of {100 * found.night_loss:.2f} points or more in {100 * POWER:g} % of the cases.",
        footer=(Section("How it is computed", (Facts(tuple(_definitions(found))),)),),
        name=f"Noise of {found.backbone} | {found.pipeline} on {found.benchmark}",
    )


def _blocks(found: Noise, shown: int | None) -> Iterator[Block]:
    if found.warnings:
        yield Section("Before you trust these numbers", (Bullets(found.warnings, "warning"),), notes=True)
    yield Columns(tuple(_charts(found)))
    yield Cards((Card("Next", tuple(_todo(found)), wide=True),))
    yield Columns((_figures(found), _provable(found), _repeats(found)))
    if found.left_out:
        yield Sentence(
            f"{counted(len(found.left_out), 'question')} left out, to which a repeat has no answer: "
            f"{shorten(found.left_out, 5)}",
            "note",
        )
    if found.unstable:
        yield _unstable(found, shown)


def _todo(found: Noise) -> Iterator[Code]:
    yield Code(f"crosscheck compare {found.run_id}:repeats RUN:repeats  # with the repeats of another run")
    more = found.runs + 3
    yield Code(f"crosscheck noise {found.run_id} --repeats {more}  # 3 more repeats, for narrower figures")


def _figures(found: Noise) -> Table:
    total = found.questions
    rows: list[tuple[str, str, str]] = [
        ("EX, mean of the runs", _share(found.ex_mean), f"standard deviation {100 * found.ex_sd:.2f} points"),
        ("flip rate", _share(found.flip_rate), f"at most {_share(found.flip_bound)} (bound at 99.9 %)"),
        ("SQL texts that change", _share(found.text_rate), "between two runs"),
        *(
            (f"pass^{k}", _share(share), "right in all of k runs" if k > 1 else "right in one run")
            for k, share in found.pass_k.items()
            if k in (1, 2, found.runs)
        ),
        (
            "majority",
            percent(found.majority),
            f"{counts(found.majority)} right in more than half of the runs",
        ),
        ("always right", _share(found.always_right / total), f"{found.always_right:,} of {total:,}"),
        ("always wrong", _share(found.always_wrong / total), f"{found.always_wrong:,} of {total:,}"),
        ("unstable", _share(len(found.unstable) / total), f"{len(found.unstable):,} of {total:,}"),
        (
            "variance due to the model",
            DASH if found.model_share is None else f"{100 * found.model_share:.1f} %",
            f"{found.components.model:.4f}; of the questions {found.components.questions:.4f}",
        ),
        (
            "standard deviation explained by flips",
            f"{100 * found.expected_sd:.2f} points",
            "if questions flip independently of each other",
        ),
    ]
    return Table("Noise", (Column("", "text"), Column(""), Column("", "text")), tuple(rows))


def _repeats(found: Noise) -> Table:
    rows = tuple(
        (
            str(place),
            Span(each.run_id, "quiet"),
            percent(each.ex),
            counts(each.ex),
            number(each.calls),
            money(each.cost_usd),
        )
        for place, each in enumerate(found.repeats, 1)
    )
    last = (
        "repeated run",
        Span(found.run_id, "quiet"),
        percent(found.original),
        counts(found.original),
        "",
        "",
    )
    headers = (
        Column("repeat", "text"), Column("run", "text"), "EX", "right", "calls paid", "paid",
    )  # fmt: skip
    return Table(
        "Runs", headers, (*rows, None, last), "the repeated run is in no figure: it may have been chosen"
    )


def _provable(found: Noise) -> Table:
    rows = tuple((_test(each), f"{each.level:g}", points(-each.loss)) for each in found.provable)
    return Table(
        f"Smallest loss that is proven in {100 * POWER:g} % of the cases",
        (Column("", "text"), "level", "points"),
        rows,
        "a loss of questions that were always right",
    )


def _test(each: ProvableLoss) -> str:
    if each.measured:
        return "one night with new replies, by the measured flip rate"
    if each.runs == 1:
        return "one run against one run (exact McNemar test)"
    return f"{each.runs} runs against {each.runs} (sign-flip test)"


def _charts(found: Noise) -> Iterator[Figure]:
    marks = tuple(
        point(each.ex, "past", str(place)) for place, each in enumerate(found.repeats, 1) if each.ex.total
    )
    label = "Execution accuracy of each run: " + "; ".join(in_words(each.ex) for each in found.repeats)
    yield Figure(
        "Execution accuracy of each run, with 95 % intervals over questions (Wilson)", Intervals(marks, label)
    )
    parts = (
        ("right in every run", found.always_right, "both-right"),
        ("unstable", len(found.unstable), "a"),
        ("wrong in every run", found.always_wrong, "both-wrong"),
    )
    legend = tuple((kind, (f"{name} ", Span(f"{count:,}", "strong"))) for name, count, kind in parts)
    yield Figure(
        "Stability of the questions",
        Parts(parts, ", ".join(f"{name}: {count:,}" for name, count, _ in parts)),
        legend=Legend(legend),
    )


def _unstable(found: Noise, shown: int | None) -> Table:
    rows = tuple(
        (
            each.question_id,
            each.database,
            each.difficulty or "",
            f"{each.right} of {found.runs}",
            number(each.texts),
            each.question,
        )
        for each in found.unstable
    )
    headers = (
        Column("question", "text"), Column("database", "text"), Column("difficulty", "text"),
        Column("right", brief=True), "SQL texts",
        Column("text", "text"),
    )  # fmt: skip
    return Table(
        "Unstable questions",
        headers,
        rows,
        "the least stable first",
        wide=True,
        first=shown,
        more="--all, --json or --html",
    )


def _definitions(found: Noise) -> Iterator[tuple[str, str]]:
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
        f"For {counted(found.questions, 'question')} and the measured flip rate, in the normal approximation of each "
        "test.",
    )


def _share(share: float) -> str:
    return f"{100 * share:.2f} %"
