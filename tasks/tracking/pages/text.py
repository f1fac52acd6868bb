"""A judged answer in words: on a terminal, in Markdown and on a page alike."""

from tasks.core.wording import counted
from tasks.scoring.report import QuestionScore, is_right

_STATUS = {
    "error": "wrong, does not run",
    "timeout": "wrong, stopped at the time limit",
    "too_large": "wrong, more rows than are allowed",
    "no_answer": "no answer",
}


def answer_in_words(score: QuestionScore, rule: str) -> str:
    """Describe one answer: right, wrong, or why it could not be judged, with the database's message."""
    final, failure = score.final, score.outcome.failure
    rows = "" if final.row_count is None else f", {counted(final.row_count, 'row')}"
    if is_right(final, rule):
        return f"right{rows}"
    if final.status == "ok":
        return f"wrong: {final.difference_in_words}" if final.difference else f"wrong{rows}"
    status = _STATUS.get(final.status, final.status)
    why = failure.message if failure else final.error
    return f"{status}: {why}" if why else status
