"""Which words of a question say what is asked for, and which only narrow it down."""

from tasks.backbone.offline.english.lexicon import words_of
from tasks.backbone.offline.question.text import QuestionText

_IMPERATIVE = words_of(
    """
    show list give find return tell display what which who report select provide please state get name
    compute count calculate how output present sort identify describe
    """
)
_BOUNDARY = words_of("who whose that which where with when having if while whom without")
_BEFORE_WHICH = words_of("in of and from show find tell me , on at for")
COUNTING = (
    r"(?:how many(?: of)?|count (?:the )?(?:total )?number of|(?:the )?(?:total )?(?:number|numbers|count|amount) of"
    r"|count(?: of)?|the number(?= [.,?;]| and |$))"
    r"(?: the| all| all the| their| its)?(?P<distinct>(?: different| distinct| unique)?)(?: kinds of| types of)?"
)
_RESTART = (
    r"(?:along with|together with|as well as|with (?:the|its|their) (?:total )?(?:number|count) of|and(?: also)?(?:,)? "
    r"(?:what|how many|how much|list|show|give|return|find|tell|which|their|its|his|her|the number|the total number"
    r"|the average|the maximum|the minimum))"
)


def zone(text: QuestionText) -> list[range]:
    """Return the ranges that say what is asked for: from the last asking sentence's start to its first clause."""
    ends = [n for n, token in enumerate(text.tokens[:-1]) if token.text in (".", "?", "!", ";", ":")]
    starts = [start for start in (0, *(n + 1 for n in ends)) if text.between(start, start + 1) in _IMPERATIVE]
    start = starts[-1] if starts else 0
    stop = text.sentence_end(start)
    if not text.columns_in(start, stop, free=False) and not any(
        f.start >= start for f in text.find(COUNTING)
    ):
        start, stop = 0, text.sentence_end(0)
    ranges = [range(start, _boundary(text, start, stop))]
    for found in text.find(_RESTART):
        if ranges[-1].stop < found.start < stop:
            ranges.append(range(found.start, _boundary(text, found.start + 1, stop)))
    return ranges


def _boundary(text: QuestionText, start: int, stop: int) -> int:
    for index in range(start + 1, stop):
        word, previous = text.tokens[index].lower, text.tokens[index - 1].lower
        along = word == "with" and previous in ("along", "together")
        asking = word == "which" and previous in _BEFORE_WHICH and index <= start + 3
        if word in _BOUNDARY and not along and not asking:
            return index
    return stop
