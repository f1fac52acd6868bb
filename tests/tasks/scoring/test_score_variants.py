"""Score variants: the same answers, judged in another way, each with its own denominator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tasks.scoring.report import Differs, KeyVerdict, QuestionScore, is_right, wilson
from tasks.scoring.variants import FINDERS, Variant, find_variants, scores
from tests.tasks.scoring.samples import score

RIGHT, WRONG = "bird strict", ""
GOLDS = {"answer_keys": ["corrected=corrections.json"]}


def corrected(row: QuestionScore, change: Any, *, right: bool = False) -> QuestionScore:
    return replace(row, keys={"corrected": KeyVerdict(change, correct={"bird": right, "strict": right})})


def test_without_settings_there_are_the_official_scores_only() -> None:
    found = scores([score("1", RIGHT), score("2", WRONG)], ["bird", "strict"], {})
    assert {name: (each.rule, each.variant, each.correct, each.total) for name, each in found.items()} == {
        "bird": ("bird", "", 1, 2),
        "strict": ("strict", "", 1, 2),
    }
    assert found["bird"].interval == wilson(1, 2)


def test_corrected_golds_leave_withdrawn_questions_out_and_name_what_differs() -> None:
    rows = [
        corrected(score("1", WRONG), "replaced", right=True),
        corrected(score("2", RIGHT), "replaced"),
        corrected(score("3", RIGHT), "withdrawn"),
        score("4", RIGHT),
    ]
    found = scores(rows, ["bird", "strict"], GOLDS)
    assert list(found) == ["bird", "strict", "corrected", "corrected_strict"]
    assert (found["bird"].correct, found["bird"].total) == (3, 4)
    assert (found["corrected"].correct, found["corrected"].total) == (2, 3)
    assert found["corrected"].differs == Differs(("1",), ("2",), ("3",))
    assert found["corrected"].differs.in_words() == "right now: 1; wrong now: 2; withdrawn: 3"
    assert found["corrected"].changes == {"1": "replaced", "2": "replaced", "3": "withdrawn"}


def test_quarantined_questions_are_left_out_and_those_of_other_runs_say_nothing() -> None:
    rows = [score("1", RIGHT), score("2", WRONG)]
    found = scores(rows, ["bird"], {"quarantine": [2, "77"]})["without_quarantine"]
    assert (found.correct, found.total, found.differs.withdrawn) == (1, 1, ("2",))
    assert find_variants({"quarantine": ["77"]}, rows) == {}


def test_a_variant_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_first(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Iterator[Variant]:
        def judge(row: QuestionScore, rule: str) -> bool | None:
            return is_right(row.final, rule) if row is rows[0] else None

        yield Variant("only_first", "Of the first question", judge)

    monkeypatch.setattr("tasks.scoring.variants.FINDERS", (*FINDERS, only_first))
    found = scores([score("1", RIGHT), score("2", WRONG)], ["bird"], {})
    assert (found["only_first"].correct, found["only_first"].total) == (1, 1)
    assert found["only_first"].title == "Of the first question"
