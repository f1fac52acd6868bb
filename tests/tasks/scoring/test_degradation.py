"""Counts of unreadable replies, fallbacks and skipped stages, against counts by hand."""

from tasks.core.outcome import FAILED_ATTEMPT, Call, Failure, Outcome, StageRecord, Usage
from tasks.scoring.degradation import about_models, find_degradation


def record(stage: str, **facts: object) -> StageRecord:
    return StageRecord(stage, stage, None, False, **{"replies": 1, **facts})  # type: ignore[arg-type]


def outcome(id_: str, *records: StageRecord, failed: bool = False) -> Outcome:
    failure = Failure("backbone_error", "", "down", retryable=True) if failed else None
    return Outcome(id_, None if failed else "SELECT 1", stages=records, failure=failure)


def unread(stage: str, instead: str = "nothing was linked") -> StageRecord:
    return record(stage, unreadable=1, fallback=instead)


def test_a_run_whose_replies_were_all_read_is_not_degraded() -> None:
    found = find_degradation([outcome("1", record("forward_link"), record("preliminary_sql"))])
    assert (found.affected, found.questions, found.stages, found.sentences) == (0, 1, (), ())


def test_a_stage_of_which_no_reply_was_read_is_named_with_what_stands_for_it() -> None:
    found = find_degradation(outcome(str(n), unread("forward_link"), record("sql")) for n in range(30))
    assert (found.affected, found.questions, found.share) == (30, 30, 1.0)
    assert found.sentences == (
        "forward_link: 30 of 30 replies could not be read: nothing was linked.",
        "The score is that of the pipeline without forward_link.",
    )


def test_some_unreadable_replies_leave_the_score_to_the_pipeline() -> None:
    outcomes = [
        outcome("1", unread("forward_link")),
        *(outcome(str(n), record("forward_link")) for n in (2, 3)),
    ]
    found = find_degradation(outcomes)
    assert found.sentences == (
        "forward_link: 1 of 3 replies could not be read: nothing was linked.",
        "1 of 3 questions that did not fail had a stage that fell back.",
    )


def test_fallbacks_and_failures_with_readable_replies_are_counted_apart() -> None:
    kept = record("binary_selection", fallback="there was nothing to select from", replies=0)
    down = record("bias_elimination", error="the server is down", replies=0)
    found = find_degradation([outcome("1", kept, down), outcome("2", record("binary_selection"))])
    assert found.affected == 1
    assert [each.sentence for each in found.stages] == [
        "binary_selection: there was nothing to select from for 1 of 2 questions.",
        "bias_elimination: the server is down for 1 of 1 question.",
    ]


def test_of_several_reasons_one_is_said_to_be_the_most_frequent() -> None:
    texts = ("nothing to correct", "the server is down", "the server is down")
    fell_back = [outcome(str(n), record("correction", fallback=text)) for n, text in enumerate(texts)]
    assert find_degradation(fell_back).stages[0].sentence == (
        "correction: most often the server is down for 3 of 3 questions."
    )


def test_a_stage_that_the_settings_leave_out_is_said_and_affects_no_question() -> None:
    skipped = record("bias_elimination", skipped="no eliminator is configured", replies=0)
    found = find_degradation([outcome("1", skipped)])
    assert found.affected == 0
    assert found.sentences == ("bias_elimination: skipped for 1 of 1 question: no eliminator is configured.",)


def test_failed_questions_and_failed_attempts_of_a_rerun_are_no_degradation() -> None:
    attempt = record(FAILED_ATTEMPT, error="429")
    found = find_degradation([outcome("1", unread("forward_link"), failed=True), outcome("2", attempt)])
    assert (found.affected, found.questions, found.stages) == (0, 1, ())


def test_a_question_is_affected_once_however_many_of_its_stages_fell_back() -> None:
    found = find_degradation(
        [outcome("1", unread("forward_link"), unread("keywords", "no keyword was named"))]
    )
    assert (found.affected, len(found.stages)) == (1, 2)
    assert found.sentences[-1] == ("The score is that of the pipeline without forward_link and keywords.")


def test_replies_of_several_models_are_said_unless_the_pipeline_names_several_backbones() -> None:
    def answered(id_: str, model: str) -> Outcome:
        return outcome(id_, record("sql", calls=(Call("f" * 64, model, Usage(), False, 0.1),)))

    several = [answered("1", "m-large"), answered("2", "m-small"), answered("3", "m-large")]
    assert about_models(several, {}) == (
        "The replies are of 2 models, so the score is that of none of them alone: m-large (2 calls), m-small (1 call)."
    )
    assert about_models(several[:1], {}) == ""
    assert about_models(several, {"candidates": {"backbones": ["a", "b"]}}) == ""
    assert about_models(several, {"eliminator": "b"}) == ""
