"""What differs between a run in a bundle and the same answers scored here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flows.scoring.scorer import Scorable
from tasks.core.wording import shorten
from tasks.scoring.report import Report
from tasks.tracking.bundle.anonymous import Anonymizer
from tasks.tracking.bundle.contents import PROSE, Bundle, package_versions, text_digest
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.parameters import HIDDEN, flatten
from tasks.tracking.run_record import RunRecord, json_of

NONE = "none"
MOST_IDS = 10
_FIGURES = (
    *(
        "questions",
        "scored",
        "answered",
        "unanswered",
        "retryable",
        "scores",
        "stages",
        "by_difficulty",
        "by_database",
    ),
    *(
        "links",
        "cost",
        "stage_costs",
        "degradation",
        "failures",
        "missing_databases",
        "without_gold",
        "gold_faults",
    ),
)
"""Fields of the record whose values are compared; run times are not measured again."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as in the bundle."""

    what: str
    bundle: str  # its value in the bundle
    here: str  # its value here


@dataclass(frozen=True, slots=True)
class Figures:
    """Comparison of every figure."""

    compared: int  # number of figures
    differing: tuple[Difference, ...]


def compare_figures(theirs: RunRecord, ours: RunRecord) -> Figures:
    """Compare scores, stages, links, failures and costs, as far as the bundle's release knew them."""
    before, after = (flatten({name: json_of(each)[name] for name in _FIGURES}) for each in (theirs, ours))
    unknown = {name for name, value in before.items() if value == "null"}
    after = {name: value for name, value in after.items() if name not in unknown}
    before = {name: value for name, value in before.items() if name not in unknown}
    return Figures(len({*before, *after}), tuple(_differing(before, after, "")))


def other_data(bundle: Bundle, here: EvaluationRun, scorable: Scorable) -> Iterator[Difference]:
    """Yield the differences of files, databases, answer keys, settings, questions and programs."""
    run = bundle.run
    yield from _differing(
        {"questions": run.question_sha256}, {"questions": here.question_sha256}, "sha256 of the "
    )
    yield from _differing(run.databases, here.databases, "sha256 of the database ")
    yield from _differing(run.keys, here.keys, "sha256 of the answer key ")
    digests = {each.id: each.text_sha256 for each in bundle.questions}
    other = [each.id for each in scorable.questions if digests[each.id] != text_digest(each)]
    if other:
        yield Difference("text or evidence of questions", shorten(other, MOST_IDS), "another")
    yield from _differing(_settings(run), _settings(here), "")
    packages = bundle.export.get("packages") or {}
    yield from _differing(
        {"engine": run.engine, **packages}, {"engine": here.engine, **package_versions()}, ""
    )


def other_verdicts(bundle: Bundle, report: Report) -> Iterator[Difference]:
    """Yield the questions whose answers have another verdict, by rule, stage and answer key."""
    found: dict[tuple[str, str, str], list[str]] = {}
    theirs = {each.id: each for each in bundle.questions}
    for row in report.rows:
        one = theirs[row.question.id]
        before: dict[str, Mapping[str, bool]] = {"final SQL": one.final, **one.stages, **one.keys}
        after: dict[str, Mapping[str, bool]] = {"final SQL": row.final.correct}
        after |= {name: each.correct for name, each in row.stages.items()}
        after |= {name: each.correct for name, each in row.keys.items()}
        for name in dict.fromkeys((*before, *after)):
            then, now = before.get(name, {}), after.get(name, {})
            for rule in dict.fromkeys((*then, *now)):
                if then.get(rule) is not now.get(rule):
                    change = (f"{name}, rule {rule}", _verdict(then.get(rule)), _verdict(now.get(rule)))
                    found.setdefault(change, []).append(row.question.id)
    for (what, was, is_now), ids in found.items():
        yield Difference(f"verdict on {shorten(ids, MOST_IDS)}: {what}", was, is_now)


def _verdict(right: bool | None) -> str:
    return "not judged" if right is None else "right" if right else "wrong"


def _settings(run: EvaluationRun) -> dict[str, str]:
    """Return the settings of the benchmark as a bundle has them, without those that say where something is."""
    hidden = Anonymizer.of_this_machine((), ())
    settings = hidden.value(run.settings.get("benchmark") or {})
    found = flatten({"benchmark": {key: value for key, value in settings.items() if key not in PROSE}})
    return {name: value for name, value in found.items() if HIDDEN not in value}


def _differing(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        then, now = str(before.get(name, NONE)), str(after.get(name, NONE))
        if then != now:
            yield Difference(f"{prefix}{name}", then, now)
