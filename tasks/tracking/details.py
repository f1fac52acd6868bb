"""What lies behind a score, as plain JSON for the command line and as Markdown for MLflow."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tasks.scoring.details import Details
from tasks.scoring.report import LinkingScore, Ratio


def as_object(details: Details) -> dict[str, Any]:
    """Return the details as plain JSON; null is what was not asked for, or does not apply."""
    recall, matched, soft = details.strict_recall_or_correct, details.exact_match, details.soft_f1
    left, selection = details.without_quarantine, details.selection
    return {
        "errors": dict(details.errors),
        "errors_dac": asdict(details.dac),
        "disagreements": [
            {"question_id": each.question_id, "right": list(each.right), "wrong": list(each.wrong)}
            for each in details.disagreements
        ],
        "unanswered": list(details.unanswered),
        "selection": selection
        and {
            "candidates": list(selection.candidates),
            "oracle": _ratio(selection.oracle),
            "chosen_right": _ratio(selection.chosen_right),
            "new_queries": selection.new_queries and _ratio(selection.new_queries),
        },
        "strict_recall_or_correct": recall
        and {"link": recall.link, "stage": recall.stage, **_ratio(recall.ratio)},
        "links_resolved": {link.name: _link(link) for link in details.linking_resolved},
        "exact_match": matched
        and {
            **_ratio(matched.total),
            "by_hardness": {grade: _ratio(ratio) for grade, ratio in matched.by_hardness.items()},
        },
        "soft_f1": soft and {"sum": soft.total.correct, "total": soft.total.total, "value": soft.total.value},
        "without_quarantine": left
        and {
            "left_out": list(left.left_out),
            "rules": {rule: _ratio(ratio) for rule, ratio in left.rules.items()},
        },
        "efficiency": details.efficiency and asdict(details.efficiency),
        "figures": {
            figure.name: _ratio(figure.value) if isinstance(figure.value, Ratio) else figure.value
            for figure in details.figures
        },
    }


def remarks(details: Details, rule: str) -> Iterator[str]:
    """Yield lines for the description of a run in MLflow."""
    causes = [f"{name} {count}" for name, count in details.errors.items() if count]
    if causes:
        yield f"- causes of wrong answers: {', '.join(causes)}"
    if details.exact_match:
        yield f"- exact set match: {_percent(details.exact_match.total)}"
    if details.selection:
        yield (
            f"- selection: oracle {_percent(details.selection.oracle)}, right where exactly one candidate is "
            f"{_percent(details.selection.chosen_right)}"
        )
    if details.without_quarantine:
        left = details.without_quarantine
        yield f"- without {len(left.left_out)} quarantined questions: {_percent(left.rules[rule])}"
    if details.efficiency and details.efficiency.r_ves and details.efficiency.ves:
        yield f"- efficiency: VES {details.efficiency.ves.mean:.2f}, R-VES {details.efficiency.r_ves.mean:.2f}"
    if details.disagreements:
        yield f"- the comparison rules disagree on {len(details.disagreements)} questions"


def _ratio(ratio: Ratio) -> dict[str, float | None]:
    return {"correct": ratio.correct, "total": ratio.total, "value": ratio.value}


def _link(link: LinkingScore) -> dict[str, Any]:
    return {
        "nsr": _ratio(link.nsr),
        "strict_recall": _ratio(link.strict_recall),
        "precision": _ratio(link.precision),
    }


def _percent(ratio: Ratio) -> str:
    return (
        "none to score"
        if ratio.value is None
        else f"{100 * ratio.value:.2f} % ({ratio.correct:g}/{ratio.total:g})"
    )
