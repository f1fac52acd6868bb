"""Which words of a question say what is asked for, and which only narrow it down."""

from tasks.backbone.offline.lexicon import AGGREGATES, words_of
from tasks.backbone.offline.text import QuestionText

_IMPERATIVE = words_of(
    """
    show list give find return tell display what which who report select provide please state get name
    compute count calculate how output present sort identify describe
    """
)
_BOUNDARY = frozenset(
    {"who", "whose", "that", "which", "where", "with", "when", "having", "if", "while", "whom", "without"}
)
_BEFORE_WHICH = frozenset({"in", "of", "and", "from", "show", "find", "tell", "me", ",", "on", "at", "for"})
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
_GOES_ON = frozenset(AGGREGATES) | words_of(
    """
    and or , of the a an all for in on their his her its 's each both also along with together as well corresponding
    respective number numbers total count many how names what is are was were do does different distinct unique every
    any these those ( ) : value values information that to
    """
)


def zone(text: QuestionText) -> list[range]:
    """Return the ranges that say what is asked for: from the last asking sentence's start to its first clause."""
    starts = [0]
    for index, token in enumerate(text.tokens[:-1]):
        if token.kind == "mark" and token.text in ".?!;:" and index + 1 < len(text.tokens):
            starts.append(index + 1)
    asking = [s for s in starts if text.tokens and text.tokens[s].lower in _IMPERATIVE]
    start = asking[-1] if asking else 0
    if (
        start
        and not text.columns_in(start, text.sentence_end(start), free=False)
        and not any(found.start >= start for found in text.find(COUNTING))
    ):
        start = 0
    stop = text.sentence_end(start)
    ranges = [range(start, _boundary(text, start, stop))]
    for found in text.find(_RESTART):
        if ranges[-1].stop < found.start < stop:
            ranges.append(range(found.start, _boundary(text, found.start + 1, stop)))
    return ranges


def _boundary(text: QuestionText, start: int, stop: int) -> int:
    """Return where the first clause begins after what is asked for."""
    for index in range(start + 1, stop):
        token = text.tokens[index]
        if token.lower not in _BOUNDARY:
            continue
        previous = text.tokens[index - 1].lower
        if token.lower == "with" and previous in ("along", "together"):
            continue
        if token.lower == "which" and previous in _BEFORE_WHICH and index <= start + 3:
            continue
        return index
    return stop


def enumeration_end(text: QuestionText, span: range) -> int:
    """Return where the list of what is asked for ends: at the first word after a column that goes on otherwise."""
    inside = {i for m in (*text.columns,) for i in range(m.start, m.end)}
    inside |= {i for m in (*text.tables,) for i in range(m.start, m.end)}
    counts = {found.end for found in text.find(COUNTING)}
    begun = False
    for index in span:
        if index in inside:
            begun = (
                begun
                or index in counts
                or (index not in text.used and any(m.start <= index < m.end for m in text.columns))
            )
        elif begun and text.tokens[index].lower not in _GOES_ON and index not in text.used:
            return index
    return span.stop
