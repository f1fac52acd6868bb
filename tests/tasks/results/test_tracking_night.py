"""What a night says of its runs, how it is kept and found again, and how it reads as Markdown."""

import datetime
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import kendalltau, theilslopes

from tasks.core.errors import DataError
from tasks.core.wording import duration
from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.pages.lists import write_leaderboard
from tasks.pages.night import costs_table, night_document
from tasks.pages.night_evaluation import decline, earlier, facts, paid
from tasks.results.night import (
    Earlier,
    Night,
    all_nights,
    file_of,
    find_night,
    judge,
    read,
    write,
)
from tasks.results.night_baseline import (
    Baselines,
    Pin,
    compared,
    details,
    named_run,
    paid_before,
    pin_history,
    pins_file,
    worse_runs,
    write_pin,
)
from tasks.results.retention import Retention, WarehouseRows
from tasks.results.run_record import RunRecord, json_of
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.cost import Cost
from tasks.scoring.scores import Accuracy
from tasks.scoring.significance import MIN_SCORES, Trend, trend_of
from tasks.settings.choices import Gate
from tasks.settings.home import Home
from tests.support.disk import Disk, disk
from tests.tasks.results.comparison_samples import score, stored, two_runs, with_row, with_status
from tests.tasks.results.night_samples import REFUSED, START, a_night, entry_of, keep, of_night, unanswered

__all__ = ["disk"]


def test_a_seeded_regression_is_red_and_noise_is_green(warehouse: Warehouse) -> None:
    red = a_night(warehouse, two_runs(1, 20, 100))
    assert (red.colour, red.entries[0].verdict) == ("Red", "regression")
    assert (
        "1 of 1 evaluation is significantly worse than the baseline: bird-dev | weak-1 | rsl-sql"
        in red.verdict
    )
    for gate in (Gate(threshold=20), Gate(level=1e-9)):
        assert judge(gate, red.entries)[0].colour != "Red"
    green = a_night(warehouse, two_runs(4, 7, 100))
    assert (green.colour, green.entries[0].verdict) == ("Green", "no worse")
    assert green.verdict == "1 evaluation, no significant loss."
    (entry,) = green.entries
    partly = replace(green, entries=(replace(entry, comparison=replace(entry.comparison, questions=40)),))
    assert partly.verdict == (
        "1 evaluation, no significant loss; compared on a part of the questions: bird-dev | weak-1 | rsl-sql "
        "(40 of 100)."
    )


def test_many_comparisons_are_many_chances_to_be_unlucky(warehouse: Warehouse) -> None:
    (alone,) = a_night(warehouse, two_runs(1, 10, 100), Gate(level=0.02)).entries
    assert alone.verdict == "regression"
    twice = judge(Gate(level=0.02), [alone] * 2)
    assert [each.verdict for each in twice] == ["possibly worse", "possibly worse"]
    assert twice[0].adjusted_p == pytest.approx(2 * (alone.adjusted_p or 0))


def test_a_loss_that_is_not_proven_is_amber_and_no_failure(warehouse: Warehouse) -> None:
    night = a_night(warehouse, two_runs(2, 10, 100))
    (judged,) = night.entries
    assert judged.adjusted_p is not None and 0.01 < judged.adjusted_p < 0.05
    assert (night.colour, judged.verdict) == ("Amber", "possibly worse")
    assert "1 of 1 evaluation is worse than the baseline, which is not proven" in night.verdict
    assert json_of(night)["colour"] == "Amber"
    for gate in (Gate(doubt_level=0.03), Gate(threshold=8.1)):
        assert judge(gate, [judged])[0].colour == "Green"


def losing(nights: int, each: int = 2, questions: int = 100) -> list[RunRecord]:
    """Runs of which each has a few questions fewer right than the one before."""
    return [
        stored(score(number, number < 60 - each * night) for number in range(questions))
        for night in range(nights)
    ]


def test_scores_that_decline_night_by_night_are_amber_although_no_night_is_worse_than_the_one_before(
    warehouse: Warehouse,
) -> None:
    (judged,) = a_night(warehouse, losing(9, each=1)).entries
    assert judged.comparison is not None and len(judged.comparison.broken) == 1
    assert judged.verdict == "declining" and judged.trend_p is not None and judged.trend_p < 0.001
    assert "−8.00 points over the last 9 scores (Sen's slope)" in decline(judged)
    assert judge(Gate(threshold=8.5), [judged])[0].colour == "Green"
    assert judge(Gate(trend_level=1e-6), [judged])[0].colour == "Green"


def test_a_night_that_was_killed_and_continued_is_compared_with_the_night_before_and_counts_once(
    warehouse: Warehouse,
) -> None:
    good, bad = two_runs(1, 20, 100)
    killed, continued = of_night("second", bad), of_night("second", bad)
    (judged,) = a_night(warehouse, [of_night("first", good), killed, continued]).entries
    runs = warehouse.runs()
    assert (judged.verdict, judged.baseline) == ("regression", runs[-1].run_id)
    assert [past.run_id for past in judged.trend] == [runs[-1].run_id, runs[0].run_id]
    (judged,) = a_night(
        warehouse, [of_night("first", good), killed, continued, of_night("third", bad)]
    ).entries
    runs = warehouse.runs()
    assert judged.baseline == runs[1].run_id, "the last run of the night before"
    assert [past.run_id for past in judged.trend] == [runs[each].run_id for each in (3, 1, 0)]


def test_a_run_that_was_worse_is_no_baseline_until_somebody_moves_it_there(warehouse: Warehouse) -> None:
    good, bad = two_runs(1, 20, 100)
    red = a_night(warehouse, [good, bad])
    first, second = (run.run_id for run in reversed(warehouse.runs()))
    worse = worse_runs([red], warehouse.runs())
    assert worse == {second}
    kept = keep(warehouse, [good, bad, bad])[-1]
    entry = compared(entry_of(kept), Baselines(worse=worse), warehouse, Gate())
    assert (entry.baseline, judge(Gate(), [entry])[0].verdict) == (first, "regression")
    pin = Pin(entry.name, second, "The new prompt is cheaper.", START, "ann")
    pinned = Baselines({entry.name: named_run(second, warehouse)}, {entry.name: pin}, worse)
    entry = compared(entry_of(kept), pinned, warehouse, Gate())
    assert (entry.baseline, judge(Gate(), [entry])[0].verdict) == (second, "no worse")
    assert entry.pinned == "pinned on 2026-11-21 by ann: The new prompt is cheaper."


def test_a_run_merged_from_one_that_was_worse_is_no_baseline_either(warehouse: Warehouse) -> None:
    good, bad = two_runs(1, 20, 100)
    red = a_night(warehouse, [good, bad])
    parent = red.entries[0].run_id
    merged = bad.model_copy(update={"tags": {"parent_run_id": str(parent)}})
    keep(warehouse, [good, bad, merged])
    assert worse_runs([red], warehouse.runs()) == {parent, warehouse.runs()[0].run_id}


@pytest.mark.slow
def test_a_run_with_too_many_unanswered_questions_is_no_baseline_but_what_it_was_merged_into_is(
    warehouse: Warehouse,
) -> None:
    good, bad = two_runs(1, 20, 100)
    lost = unanswered(good, range(1, 41))
    (judged,) = a_night(warehouse, [good, lost, bad]).entries
    assert (judged.verdict, judged.baseline) == ("regression", "20261120-013000-000000")
    mended = good.model_copy(update={"tags": {"parent_run_id": "20261121-013000-000001"}})
    (judged,) = a_night(warehouse, [good, lost, mended, bad]).entries
    assert (judged.verdict, judged.baseline) == ("regression", "20261122-013000-000002")
    (judged,) = a_night(warehouse, [good, lost, bad], Gate(tolerated_failures=0.5)).entries
    assert judged.baseline == "20261121-013000-000001"


def test_no_attempt_of_a_night_that_was_worse_is_a_baseline(warehouse: Warehouse) -> None:
    good, bad = two_runs(1, 20, 100)
    runs = [of_night("first", good), of_night("second", bad), of_night("second", bad)]
    again = a_night(warehouse, runs, name="second")
    assert again.entries[0].verdict == "regression"
    kept = keep(warehouse, [*runs, of_night("third", bad)])[-1]
    worse = worse_runs([again], warehouse.runs())
    entry = compared(entry_of(kept), Baselines(worse=worse), warehouse, Gate())
    assert (entry.baseline, judge(Gate(), [entry])[0].verdict) == ("20261120-013000-000000", "regression")


def test_a_run_that_lacks_too_many_answers_was_worse_where_its_answers_are(
    warehouse: Warehouse,
) -> None:
    good, bad = two_runs(2, 10, 100)
    night = a_night(warehouse, [good, unanswered(bad, (21, 23))])
    assert night.entries[0].verdict == "too many unanswered"
    assert worse_runs([night], warehouse.runs()) == {warehouse.runs()[0].run_id}
    night = a_night(warehouse, [good, unanswered(good, (1, 3))])
    assert night.entries[0].verdict == "too many unanswered" and not night.worse


@pytest.mark.slow
def test_the_trend_begins_at_the_pinned_baseline(warehouse: Warehouse) -> None:
    kept = keep(warehouse, losing(9))
    name = entry_of(kept[-1]).name
    for number, scores in ((1, 8), (4, None)):
        named = warehouse.read_run(kept[number].run_id)
        entry = compared(entry_of(kept[-1]), Baselines({name: named}), warehouse, Gate())
        assert (entry.decline and entry.decline.scores) == scores
        assert len(entry.trend) == 9, "the page shows all of them"


def test_a_cost_that_is_unknown_is_so_in_its_row_and_a_free_model_has_no_forecast(
    warehouse: Warehouse,
) -> None:
    def shown(**usd: float) -> object:
        night = a_night(warehouse, two_runs(4, 7, 100), cost=Cost(calls=3, cached_calls=0, **usd))
        (row,) = costs_table(night).rows
        return row and row[5:8]

    assert shown() == ("unknown", "unknown", "unknown")
    assert shown(cost_usd=0.0, from_scratch_usd=0.0) == ("$0.0000", "$0.0000", "–")


def test_runs_of_nights_are_compared_with_runs_of_nights(warehouse: Warehouse) -> None:
    good, bad = two_runs(1, 20, 100)
    (judged,) = a_night(warehouse, [of_night("last", good), bad, of_night("this", bad)]).entries
    assert judged.baseline == warehouse.runs()[-1].run_id
    assert [past.ex.correct for past in judged.trend] == [60, 41]


def test_nights_that_were_missed_are_said(warehouse: Warehouse) -> None:
    night = replace(a_night(warehouse, two_runs(4, 7, 100)), missed=(START,))
    assert night.verdict.endswith("1 nightly run was missed since the one before: 2026-11-21 01:30 UTC.")
    many = replace(night, missed=tuple(START + datetime.timedelta(days=day) for day in range(9)))
    assert (
        "9 nightly runs were missed since the one before: the last of them 2026-11-23 01:30" in many.verdict
    )
    assert night.verdict in html(night_document(night, warehouse))


def test_a_night_with_nothing_to_compare_with_is_not_green(warehouse: Warehouse) -> None:
    night = a_night(warehouse, two_runs(4, 7, 100)[1:])
    assert night.entries[0].verdict == "no baseline"
    assert night.colour == "No baseline yet", "not green: nothing was compared"
    assert night.verdict.startswith("1 evaluation, none compared.")
    a, b = two_runs(0, 40, 100)
    a = a.model_copy(update={"databases": {"shop": "a1" * 32}})
    b = b.model_copy(update={"databases": {"shop": "b2" * 32}})
    night = a_night(warehouse, [a, b])
    assert night.entries[0].comparison is None
    assert "1 database changed between them (shop)" in night.entries[0].problem


def test_a_night_after_which_the_questions_changed_is_no_baseline_and_that_is_said(
    warehouse: Warehouse,
) -> None:
    before, tonight = two_runs(4, 7, 100)
    tonight = tonight.model_copy(update={"question_sha256": "0" * 64})
    night = a_night(warehouse, [of_night("before", before), of_night("tonight", tonight)])
    assert night.verdict.startswith(
        "1 evaluation, none compared (the questions changed since an earlier nightly run)."
    )


def test_a_night_after_which_another_rule_was_chosen_is_no_baseline(warehouse: Warehouse) -> None:
    before, tonight = two_runs(1, 20, 100)
    night = a_night(warehouse, [before, tonight.model_copy(update={"rule": "strict"})])
    assert (night.colour, night.entries[0].problem) == ("No baseline yet", "")


def test_a_run_that_saw_the_gold_is_compared_with_nothing(warehouse: Warehouse) -> None:
    before, tonight = two_runs(1, 20, 100)
    night = a_night(warehouse, [before, tonight.model_copy(update={"tags": {"oracle": "both"}})])
    (judged,) = night.entries
    assert (judged.verdict, judged.comparison, judged.baseline) == ("not ranked", None, None)
    assert "saw parts of the gold" in judged.not_ranked
    assert "1 is not ranked" in night.verdict


def test_failed_infrastructure_is_red_whatever_else_is_well(warehouse: Warehouse) -> None:
    night = a_night(warehouse, two_runs(4, 7, 100), others=[REFUSED])
    assert [each.verdict for each in night.entries] == ["no worse", "infrastructure"]
    assert "1 of 2 evaluations was not completed: demo | closed | zero-shot" in night.verdict
    night = a_night(warehouse, two_runs(4, 7, 100), others=[REFUSED, REFUSED])
    assert "2 of 3 evaluations were not completed: " in night.verdict
    night = a_night(warehouse, two_runs(4, 7, 100), others=[replace(REFUSED, backbone="\x1b[2J\u202e")])
    assert "demo | ␛[2J<U+202E> | zero-shot" in night.verdict, "a webhook and a log receive it as it is"


def test_what_nobody_answered_is_no_regression_but_too_much_of_it_is_red(warehouse: Warehouse) -> None:
    before, tonight = two_runs(0, 0, 100)
    night = a_night(warehouse, [before, unanswered(tonight, (1, 3, 5))])
    (judged,) = night.entries
    assert (judged.verdict, judged.comparison.broken) == ("too many unanswered", ())
    assert judged.verdict_in_words == "too many unanswered: 3 of 100"
    assert "1 of 1 evaluation has too many questions without an answer: " in night.verdict
    assert "3 of 100 questions have no answer, 3.0 %: more than the 1 % that is tolerated" in judged.problem
    assert judged.ex == Accuracy(47, 100)
    assert judged.run and judged.run.failures == {"backbone_error": 3}


def test_the_share_without_an_answer_is_of_the_scored_questions(warehouse: Warehouse) -> None:
    before, tonight = two_runs(0, 0, 100)
    for place in range(50, 100):  # without a database
        before, tonight = (with_row(run, place, executable=False) for run in (before, tonight))
    (judged,) = a_night(warehouse, [before, unanswered(tonight, (1, 60))]).entries
    assert judged.verdict_in_words == "too many unanswered: 1 of 50"
    assert judged.problem.startswith(
        "1 of 50 questions has no answer, 2.0 %: more than the 1 % that is tolerated."
    )
    (detail,) = details([judged], warehouse)
    assert [row.question.id for row in detail.retryable] == [tonight.rows[1].question.id]


def test_the_trend_is_of_the_same_combination_without_what_was_mended_or_is_not_ranked(
    warehouse: Warehouse,
) -> None:
    _, plain = two_runs(3, 1, 20)
    other = plain.model_copy(update={"pipeline": "other"})
    oracle = plain.model_copy(update={"tags": {"oracle": "both"}})
    mended = plain.model_copy(update={"tags": {"parent_run_id": "20261121-013000-000001"}})
    (judged,) = a_night(
        warehouse, [plain, plain, other, oracle, with_status(plain, "partial"), mended, plain]
    ).entries
    hours = [past.started.hour for past in judged.trend]
    assert hours == [1, 6, 7], "the second was mended by the sixth"
    assert all(past.ex == Accuracy(11, 20) for past in judged.trend)


@pytest.mark.parametrize("removed", [False, True])
def test_the_trend_begins_where_other_questions_were_asked_or_another_rule_was_chosen(
    warehouse: Warehouse, *, removed: bool
) -> None:
    _, plain = two_runs(3, 1, 20)
    before, after = (plain.model_copy(update={"rows": rows}) for rows in (plain.rows[:10], plain.rows[10:]))
    strict = after.model_copy(update={"rule": "strict"})
    runs = [*[before] * 3, *[strict] * 2, *[after] * 2]
    kept = keep(warehouse, runs)[-1]
    if removed:
        old = frozenset(run.run_id for run in warehouse.runs()[1:])
        store = WarehouseRows("runs", warehouse._file.path)
        store.remove(Retention(START, frozenset(), old, rows=False))
    entry = compared(entry_of(kept), Baselines(), warehouse, Gate())
    assert [past.started.hour for past in entry.trend] == [6, 7]


def test_what_is_kept_of_a_night_is_all_of_it(warehouse: Warehouse, tmp_path: Path) -> None:
    before, tonight = two_runs(1, 20, 100)
    tonight = unanswered(tonight, 99, "No.")
    night = a_night(warehouse, [before, tonight], others=[REFUSED], notes=("A note.",), matrix={"limit": 5})
    trend = replace(night.entries[0], decline=Trend(8, -0.01, 0.004), pinned="pinned by ann: why")
    night = replace(night, entries=judge(night.gate, [trend, REFUSED]), missed=(START,), expected=START)
    file = write(night, Home(tmp_path))
    assert file == tmp_path / "nights" / "2026-11-21T01-30Z.json"
    assert read(file) == night
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told == json_of(night)
    (entry, refused) = told["entries"]
    assert entry["run"]["low"] < entry["run"]["ex"] < entry["run"]["high"]
    comparison = entry["comparison"]
    assert comparison["confidence"] == 0.99 and comparison["low"] < comparison["difference"]
    assert refused["run"] is None and night.entries[1].cost.calls is None
    del entry["run"]  # a state before 0.1.0 had some of its fields in their place
    file.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(DataError, match=r"entries\.0\.run.* another release wrote it\. Move it away"):
        read(file)


def test_what_a_killed_attempt_paid_is_known_at_least(warehouse: Warehouse) -> None:
    first, second = (of_night("tonight", each) for each in two_runs(1, 2, 4))
    warehouse.start(with_status(first, "running"))
    warehouse.append_questions(first, first.rows[:3])  # of four
    warehouse.abandon(first.run_id, "killed")
    (night,) = nights("tonight")
    assert (earlier(night), paid(night)) == ("", "$0.0000")
    killed = replace(night, earlier=paid_before("tonight", [], warehouse))
    assert killed.earlier == Earlier(None, 0.75)
    assert earlier(killed).startswith(
        "Other runs under its name (of earlier attempts, or without a score) paid"
    )
    assert "at least $0.7500 more; the cost of their last calls is unknown" in earlier(killed)
    assert (killed.paid_usd, paid(killed)) == (None, "at least $0.7500")
    assert paid_before("another", [], warehouse) == Earlier()
    keep(warehouse, [second])
    assert paid_before("tonight", [], warehouse) == Earlier(None, 1.75)
    assert paid(replace(night, earlier=Earlier(None))) == "unknown"


def nights(*names: str) -> list[Night]:
    return [
        Night(name, Gate(), (), START + datetime.timedelta(days=day), START) for day, name in enumerate(names)
    ][::-1]


@pytest.mark.parametrize(("reference", "meant"), [
    ("latest", "2026-11-22T01:30Z"),
    ("latest~1", "2026-11-21T01:30Z"),
    ("2026-11-21T01:30Z", "2026-11-21T01:30Z"),
    ("2026-11-21T01-30Z", "2026-11-21T01:30Z"),
    ("2026-11-21", "2026-11-21T01:30Z"),
    ("2026", "2026"),
])  # fmt: skip
def test_a_night_goes_by_many_names(reference: str, meant: str) -> None:
    known = nights("2026", "2026-11-21T01:30Z", "2026-11-22T01:30Z")
    assert find_night(reference, known).name == meant


@pytest.mark.parametrize(("reference", "message"), [
    ("latest~7", "there are 3 so far"),
    ("2026-11-2", "the beginning of 2 nightly runs: 2026-11-22T01:30Z, 2026-11-21T01:30Z"),
    ("2026-11-21T01:31Z", 'Did you mean "2026-11-21T01:30Z"'),
    ("", "There is no night"),
])  # fmt: skip
def test_a_night_that_is_not_there_is_said_not_to_be(reference: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_night(reference, nights("2026", "2026-11-21T01:30Z", "2026-11-22T01:30Z"))
    with pytest.raises(DataError, match="none has finished in this folder yet"):
        find_night("latest", [])


def test_nights_are_read_the_latest_first_from_their_folder_alone(tmp_path: Path) -> None:
    for night in nights("b", "a", "c"):
        write(night, Home(tmp_path))
    assert [night.name for night in all_nights(Home(tmp_path))] == ["c", "a", "b"]
    assert all_nights(Home(tmp_path / "elsewhere")) == ()
    assert file_of(Home(tmp_path), "../../etc/x y").parent == tmp_path / "nights"
    assert file_of(Home(tmp_path), "2026-11-21T01:30Z").name == "2026-11-21T01-30Z.json"


def test_a_night_whose_file_cannot_be_read_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path)
    for night in nights("c", "b", "a"):
        write(night, home)
    file_of(home, "a").write_bytes(b"")
    file_of(home, "b").unlink()
    file_of(home, "b").symlink_to("b.json")
    (home.nights / "d.json").mkdir()
    assert [night.name for night in all_nights(home)] == ["c"]
    told = sorted(record.getMessage() for record in caplog.records)
    for name, line in zip("abd", told, strict=True):
        assert f"{name}.json cannot be read" in line and "it is left out" in line and "\n" not in line


def test_each_night_has_a_file_of_its_own_whatever_its_name(tmp_path: Path) -> None:
    hiragana = "\N{HIRAGANA LETTER A}" * 90
    names = ["a-b", "a/b", "a b", "a\nb", "../b", "\N{PILE OF POO}", "\ud800", "x" * 300, "x" * 301, hiragana]
    for night in nights(*names):
        write(night, Home(tmp_path))
    assert len(list((tmp_path / "nights").iterdir())) == len(names)


def test_a_night_on_a_full_disk_leaves_the_earlier_ones_readable(disk: Disk) -> None:
    home = Home(disk.folder)
    earlier, tonight = nights("2026-11-22", "2026-11-21")[::-1]
    write(earlier, home)
    with disk.full(), pytest.raises(OSError, match="No space left"):
        write(tonight, home)
    assert [night.name for night in all_nights(home)] == [earlier.name]


def test_the_leaderboard_on_a_full_disk_leaves_no_half_page(disk: Disk) -> None:
    with disk.full(), pytest.raises(OSError, match="No space left"):
        write_leaderboard((), Home(disk.folder))
    assert list((disk.folder / "reports").iterdir()) == []


def test_the_artifact_has_the_verdict_the_numbers_and_the_commands(warehouse: Warehouse) -> None:
    before, tonight = two_runs(3, 20, 100)
    night = a_night(warehouse, [before, unanswered(tonight, 99, "No.")], others=[REFUSED])
    text = markdown(night_document(night, warehouse, page="/home/nights/n.html"))
    assert text.startswith("# Red: nightly run 2026-11-21T01:30Z\n")
    entry = night.entries[0]
    for part in (
        "**regression**", "**not evaluated**", "The key was refused.", "crosscheck evaluate --backbone closed",
        f"crosscheck rerun {entry.run_id}", f"crosscheck compare {entry.baseline} {entry.run_id} --html",
        "`/home/nights/n.html`", "crosscheck nights show 2026-11-21T01:30Z --html", "1 backbone error", "0.50 s",
    ):  # fmt: skip
        assert part in text
    assert "**3** (db3 · simple) What is 3?\n\nbaseline right, 3 rows\n\n```sql\nSELECT 3\n```" in text
    assert "\nthis run wrong, 3 rows\n\n```sql\nSELECT 3 FROM b\n```" in text
    assert text.count("```sql") == 2 * 5, "five of the 20"
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [line.count("|") - line.count("\\|") for line in rows] == [14] * 4 + [13] * 5


def test_the_facts_say_when_what_and_how(warehouse: Warehouse) -> None:
    matrix = {
        "benchmarks": ["bird-dev"],
        "backbones": ["/home/us/weak-1.yaml"],
        "pipelines": ["rsl-sql"],
        "limit": 20,
        "overrides": ["x.y=1"],
    }
    told = dict(facts(replace(a_night(warehouse, two_runs(1, 2, 10), matrix=matrix), new_replies=True)))
    assert told == {
        "when": "2026-11-21 01:30 to 02:10 UTC (40 min)",
        "matrix": "1 benchmark × 1 backbone × 1 pipeline: bird-dev; weak-1; rsl-sql",
        "files": "/home/us/weak-1.yaml",
        "questions": "the first 20",
        "settings changed": "x.y=1",
        "replies": "new ones were requested",
    }


@pytest.mark.parametrize(("seconds", "told"), [
    (None, "–"), (0.2, "0 s"), (59.6, "1 min"), (200, "3 min 20 s"), (9000, "2 h 30 min"), (7200, "2 h"),
])  # fmt: skip
def test_durations_are_told_as_people_do(seconds: float | None, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize("line", [b'{"name": "a\xff"}', b"\xff\xfe", b""])
def test_a_damaged_line_of_the_pinned_baselines_is_named(tmp_path: Path, line: bytes) -> None:
    home = Home(tmp_path)
    write_pin(Pin("a | b | c", "r1", "Release 4", START), home)
    with pins_file(home).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(DataError, match="line 2, is no pinned baseline"):
        pin_history(home)


def test_a_reason_may_hold_any_separator_of_lines(tmp_path: Path) -> None:
    pin = Pin("a | b | c", "r1", "Release 4\u2028agreed\x85\r\nby all", START)
    write_pin(pin, Home(tmp_path))
    assert pin_history(Home(tmp_path)) == (pin,)


STEADY = [0.6] * 14


@pytest.mark.parametrize("seed", range(5))
def test_slope_and_sign_are_those_of_a_library(seed: int) -> None:
    drawn = random.Random(seed)
    scores = [round(0.6 - 0.002 * night + drawn.gauss(0, 0.01), 2) for night in range(20)]
    found = trend_of(scores)
    assert found.slope == pytest.approx(theilslopes(scores).slope)
    library = kendalltau(range(20), scores, alternative="less", method="asymptotic")
    assert found.p_value == pytest.approx(library.pvalue, abs=0.02), (
        "which corrects for ties, not for continuity"
    )


def test_what_stays_rises_or_is_short_does_not_decline_nor_does_one_bad_night() -> None:
    for scores in (STEADY, [0.5 + 0.01 * night for night in range(14)]):
        found = trend_of(scores)
        assert found is not None and found.p_value == 1.0 and found.change >= 0
    for lower, slope in ((1, 0.0), (3, 0.0), (8, -0.005)):
        found = trend_of(STEADY[lower:] + [0.55] * lower)
        assert round(found.slope, 3) == pytest.approx(slope, abs=0.001)
    assert trend_of(STEADY[: MIN_SCORES - 1]) is None
