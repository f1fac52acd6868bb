"""Repeats of a run: how they are found, what is measured on them, and comparisons of several runs."""

import datetime
import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.core.errors import ConfigurationError, DataError
from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.pages.comparison import comparison_document
from tasks.pages.night import night_document
from tasks.pages.repeats import noise_document
from tasks.results.build_record import record_of
from tasks.results.compare import compare
from tasks.results.comparison import gated
from tasks.results.night import NightEntry, judge
from tasks.results.night_baseline import Baselines, compared
from tasks.results.noise import measure, measured_noise, read_side, repeated_run, repeats_of
from tasks.results.run_record import NOISE, ORACLE, REPEAT, RunRecord, json_of
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Gate
from tests.tasks.results.comparison_samples import score, stored
from tests.tasks.results.night_samples import unanswered

pytestmark = pytest.mark.slow

START = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
QUESTIONS = 60
Rights = Callable[[int], bool]


def run_of(number: int, right: Rights, questions: int = QUESTIONS, **tags: str) -> RunRecord:
    """A run, the later the higher its number, in which some questions are right."""
    made = stored((score(name, right(name)) for name in range(questions)), "a")
    started = START + datetime.timedelta(minutes=number)
    run = made.model_copy(
        update={"run_id": f"20261121-02{number:04d}-00000a", "started": started, "tags": tags}
    )
    return record_of(run, made.rows)


def repeats(counts: Sequence[int], parent: str, runs: int = 4, first: int = 1) -> list[RunRecord]:
    """Repeats of a run, in which the question of a place is right as often as its count says."""
    return [
        run_of(
            first + place,
            lambda name, place=place: place < counts[name % len(counts)],  # type: ignore[misc]
            **{NOISE: parent, REPEAT: str(place + 1)},
        )
        for place in range(runs)
    ]


def keep(path: Path, runs: Sequence[RunRecord]) -> Warehouse:
    warehouse = Warehouse(path / "warehouse.duckdb")
    for each in runs:
        warehouse.finish(record_of(each, each.rows, each.status))
    return warehouse


def test_the_figures_are_those_of_all_pairs_of_repeats() -> None:
    parent = run_of(0, lambda name: name % 2 == 0)
    found = measure(parent, repeats([4, 0, 2, 1, 3], parent.run_id))
    rights = [[place < count for place in range(4)] for count in [4, 0, 2, 1, 3]]
    flips = [one != other for each in rights for one, other in combinations(each, 2)]
    assert found.flip_rate == pytest.approx(sum(flips) / len(flips))
    scores = [each.ex.ex for each in found.repeats]
    assert scores == [0.8, 0.6, 0.4, 0.2]
    assert (found.ex_mean, found.ex_sd) == (pytest.approx(0.5), pytest.approx(np.std(scores, ddof=1)))
    assert (found.always_right, found.always_wrong, len(found.unstable)) == (12, 12, 36)
    assert found.pass_k[4] == pytest.approx(0.2)
    assert found.unstable[0].right == 2
    assert found.by_rate and found.by_mcnemar and found.provable_loss
    assert 0.2 < found.provable_loss == min(found.by_rate, found.by_mcnemar)


def test_questions_that_a_repeat_could_not_answer_are_left_out_and_named() -> None:
    parent = run_of(0, lambda name: True)
    one, *others = repeats([4], parent.run_id)
    found = measure(parent, [unanswered(one, range(3)), *others])
    assert (found.questions, len(found.left_out), found.flip_rate) == (QUESTIONS - 3, 3, 0.0)


def test_too_few_repeats_or_questions_measure_or_prove_nothing() -> None:
    parent = run_of(0, lambda name: True, 4)
    found = measure(parent, [run_of(n, lambda name: True, 4) for n in (1, 2)])
    assert (found.by_rate, found.by_mcnemar, found.provable_loss, found.decides) == (None, None, None, False)
    text = markdown(noise_document(found))
    assert "too few for one night to prove any loss in 80 % of the cases" in text
    assert "| smallest provable loss | none |" in text
    parent = run_of(0, lambda name: True)
    with pytest.raises(DataError, match=r"1 repeat of .*: 2 are the least"):
        measure(parent, repeats([4], parent.run_id, runs=1))


def test_no_run_can_lose_more_than_it_has() -> None:
    parent = run_of(0, lambda name: True)
    assert measure(parent, repeats([4], parent.run_id)).provable_loss
    found = measure(parent, repeats([4, *[0] * 19], parent.run_id))
    assert (found.ex_mean, found.provable_loss) == (0.05, None)


def test_terminal_markdown_page_and_json_have_the_same_figures() -> None:
    parent = run_of(0, lambda name: name % 2 == 0)
    found = measure(parent, repeats([4, 0, 2, 1, 3], parent.run_id))
    document = noise_document(found)
    for text in (html(document), markdown(document)):
        for figure in (
            "33.33 %",
            "50.00 %",
            found.repeats[0].run_id,
            f"{100 * found.provable_loss:.2f} points",
        ):
            assert figure in text.replace("\\", "")
    written = json.loads(json.dumps(json_of(found)))
    assert written["flip_rate"] == found.flip_rate and written["pass_k"]["4"] == pytest.approx(0.2)
    assert written["unstable"][0]["right"] == 2
    assert "No figure includes the repeated run" in html(document)
    assert [
        block.more for block in document.blocks if getattr(block, "title", "") == "Unstable questions"
    ] == ["--json"]


def test_the_repeats_of_a_run_are_its_whole_ones_and_stand_for_it(tmp_path: Path) -> None:
    parent = run_of(0, lambda name: True)
    made = repeats([2], parent.run_id)
    later = made[1].model_copy(update={"run_id": "20261121-030000-00000a", "started": START.replace(hour=3)})
    broken = unanswered(made[2], 1)
    warehouse = keep(tmp_path, [parent, made[0], made[1], later, broken])
    runs = warehouse.runs()
    assert [each.run_id for each in repeats_of(parent.run_id, runs)] == [
        made[0].run_id, later.run_id,
    ]  # fmt: skip
    assert repeated_run("latest", runs).run_id == parent.run_id
    assert [each.run_id for each in read_side(f"{parent.run_id}:repeats", runs, warehouse)] == [
        made[0].run_id, later.run_id,
    ]  # fmt: skip
    with pytest.raises(DataError, match="is named twice"):
        read_side("latest,latest", runs, warehouse)


def test_a_measurement_with_other_prompts_or_own_code_does_not_apply(tmp_path: Path) -> None:
    parent = run_of(0, lambda name: True)
    prompt = {"prompts/forward_link.jinja": "0123456789ab"}
    made = [run.model_copy(update={"sources": prompt}) for run in repeats([3, 2], parent.run_id)]
    warehouse = keep(tmp_path, [parent, *made])
    for sources, applies in (
        (prompt, True),
        ({}, True),  # a release that did not note them
        ({**prompt, "shop/mine.py": "ba9876543210"}, True),
        ({"prompts/forward_link.jinja": "ba9876543210"}, False),
    ):
        current = run_of(9, lambda name: True).model_copy(update={"sources": sources})
        measurement = measured_noise(current, warehouse.runs(), warehouse, 0.01)
        assert (measurement is not None) == applies, sources


def test_a_run_without_repeats_is_named(tmp_path: Path) -> None:
    warehouse = keep(tmp_path, [run_of(0, lambda name: True)])
    with pytest.raises(DataError, match="has no repeats"):
        read_side("latest:repeats", warehouse.runs(), warehouse)


def side(rates: np.ndarray, random: np.random.Generator, runs: int, first: int) -> list[RunRecord]:
    drawn = random.random((runs, len(rates))) < rates
    return [
        run_of(first + place, lambda name, place=place: bool(drawn[place][name]), len(rates))  # type: ignore[misc]
        for place in range(runs)
    ]


def test_several_runs_prove_a_difference_that_single_runs_do_not() -> None:
    random = np.random.default_rng(0)
    rates = np.where(np.arange(200) < 120, 0.5, 1.0)
    better = np.where((np.arange(200) >= 100) & (np.arange(200) < 120), 1.0, rates)
    a, b = side(rates, random, 5, 0), side(better, random, 5, 10)
    found = compare(a, b)
    assert found.result.better == "B"
    assert found.result.p_value < compare(a[0], b[0]).result.p_value
    assert (found.result.runs_a, found.result.runs_b, found.warnings) == (5, 5, ())
    text = html(comparison_document(found))
    assert "inside the noise" not in text, "the difference is significant"
    assert "No figure includes the repeated run" not in text, "the runs of both sides are in the figures"
    assert found.result.headline in text and found.a.runs[0].run_id in text
    assert json.loads(json.dumps(json_of(found)))["result"]["better"] == "B"


def test_the_object_has_the_same_fields_for_one_run_and_for_several() -> None:
    runs = [run_of(place, lambda name: name % 3 == 0) for place in range(3)]
    one, several = json_of(compare(runs[0], runs[1])), json_of(compare(runs[:2], runs[2:]))
    assert (one.keys(), one["a"].keys()) == (several.keys(), several["a"].keys())
    assert (one["a"]["run_id"], one["a"]["sd"]) == (runs[0].run_id, None)
    assert several["a"]["run_id"] == f"{runs[0].run_id},{runs[1].run_id}"
    assert (several["a"]["ex"], several["a"]["sd"], several["same_sql"]) == (None, 0.0, None)
    assert several["a"]["cost"]["calls"] == 2 * one["a"]["cost"]["calls"]


def test_sides_of_several_runs_are_of_one_system_and_no_run_is_on_both() -> None:
    a = [run_of(0, lambda name: True), run_of(1, lambda name: True)]
    other = a[1].model_copy(
        update={"settings": {**a[1].settings, "pipeline": {**a[1].settings["pipeline"], "k": 9}}}
    )
    found = compare([a[0], other], [run_of(2, lambda name: True)])
    assert any("The runs of A are not identical: pipeline.k differ" in each for each in found.warnings)
    assert any("A has 2 runs and B 1" in each for each in found.warnings)
    one, other = (
        run.model_copy(update={"sources": {"prompts/dac.jinja": digest}})
        for run, digest in zip(a, "ab", strict=True)
    )
    found = compare([one, other], [run_of(2, lambda name: True)])
    assert any("not identical: prompts/dac.jinja differ" in each for each in found.warnings)
    a, b = run_of(0, lambda name: True), run_of(1, lambda name: True)
    with pytest.raises(ConfigurationError, match="on both sides"):
        compare([a, b], [a])


@pytest.mark.parametrize(("broken", "margin", "failed"), [
    (0, None, False), (20, None, True), (0, 0.01, True),
])  # fmt: skip
def test_the_gate_of_several_runs(broken: int, margin: float | None, failed: bool) -> None:
    a = [run_of(place, lambda name: True) for place in range(2)]
    b = [run_of(5 + place, lambda name: name >= broken) for place in range(2)]
    found = gated(compare(a, b, margin=margin))
    assert found.gate is not None and found.gate.failed is failed
    assert ("failed" if failed else "passed") in html(comparison_document(found))


def test_runs_that_saw_the_gold_or_have_no_answers_decide_nothing() -> None:
    a, b = run_of(0, lambda name: True), run_of(1, lambda name: name > 30)
    seen = b.model_copy(update={"tags": {ORACLE: "both"}})
    for wrong, why in (
        (seen, "saw parts of the gold SQL"),
        (unanswered(b, range(4)), "no answer to 4 questions"),
    ):
        found = compare([a, run_of(2, lambda name: True)], [wrong])
        assert found.result.better is None and why in found.result.not_ranked
        with pytest.raises(ConfigurationError, match="cannot decide"):
            gated(found)


def judged(tmp_path: Path, runs: Sequence[RunRecord], **given: Any) -> tuple[NightEntry, Warehouse]:
    """The last run as a night judges it."""
    warehouse, last = keep(tmp_path, runs), runs[-1]
    entry = NightEntry.of_run(last)
    (found,) = judge(Gate(), [compared(entry, Baselines(), warehouse, Gate(), **given)])
    return found, warehouse


def test_a_night_is_judged_by_the_measured_flip_rate_where_replies_are_new(tmp_path: Path) -> None:
    parent = run_of(0, lambda name: name % 2 == 0)
    baseline, worse = (
        run_of(20, lambda name: name % 2 == 0),
        run_of(21, lambda name: name % 2 == 0 and name >= 14),
    )
    runs = [parent, *repeats([4, 0], parent.run_id), baseline, worse]
    found, warehouse = judged(tmp_path / "a", runs, new_replies=True)
    assert found.baseline == baseline.run_id  # no repeat is a baseline
    assert found.comparison is not None and len(found.comparison.broken) == 7
    assert found.noise is not None and found.noise.decides and found.noise.runs == 4
    assert found.p_value is not None and found.p_value < 0.01 < found.comparison.p_value
    assert found.verdict == "regression"
    assert [past.run_id for past in found.trend] == [each.run_id for each in (parent, baseline, worse)]
    from tasks.results.night import Night

    night = Night("n", Gate(), (found,), START, START)
    assert "0.00 % of the verdicts flip between identical runs, measured on 4 repeats" in html(
        night_document(night, warehouse)
    )
    cached, _ = judged(tmp_path / "b", runs)
    assert (cached.noise, cached.verdict) == (None, "possibly worse")


def test_where_mcnemar_proves_more_it_decides(tmp_path: Path) -> None:
    parent = run_of(0, lambda name: name % 2 == 0)
    runs = [
        parent,
        *repeats([4, 4, 4, 4, 2], parent.run_id),
        run_of(20, lambda name: True),
        run_of(21, lambda name: True),
    ]
    found, _ = judged(tmp_path, runs, new_replies=True)
    assert found.noise is not None and not found.noise.decides
    assert found.comparison is not None and found.p_value == found.comparison.p_value


@pytest.mark.parametrize("change", ["settings", "few", "questions"])
def test_a_measurement_of_another_system_or_of_few_repeats_is_not_used(tmp_path: Path, change: str) -> None:
    parent = run_of(0, lambda name: True)
    made = repeats([4], parent.run_id, runs=2 if change == "few" else 4)
    last = run_of(21, lambda name: True, QUESTIONS - 1 if change == "questions" else QUESTIONS)
    if change == "settings":
        settings = {**last.settings, "pipeline": {**last.settings["pipeline"], "k": 9}}
        last = last.model_copy(update={"settings": settings})
    found, _ = judged(tmp_path, [parent, *made, last], new_replies=True)
    assert found.noise is None


def test_the_epoch_and_the_concurrency_make_no_other_system(tmp_path: Path) -> None:
    parent = run_of(0, lambda name: True)
    last = run_of(21, lambda name: True)
    backbone = {**last.settings["backbone"], "epoch": "2026-11-21", "concurrency": 64}
    last = last.model_copy(update={"settings": {**last.settings, "backbone": backbone}})
    found, _ = judged(tmp_path, [parent, *repeats([4], parent.run_id), last], new_replies=True)
    assert found.noise is not None and found.noise.flip_rate == 0
