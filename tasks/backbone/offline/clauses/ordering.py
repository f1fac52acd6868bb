"""ORDER BY and LIMIT as a question asks for them: sorted by age, the oldest, the most common."""

import re
from dataclasses import dataclass, replace

from tasks.backbone.offline.prompt.english import AGGREGATES, SUPERLATIVES, words_of
from tasks.backbone.offline.question.mentions import ColumnMention, Mention
from tasks.backbone.offline.question.naming import hinted_column
from tasks.backbone.offline.question.query import COUNT, Order, call, plain
from tasks.backbone.offline.question.text import QuestionText, TokenMatch
from tasks.core.records import ColumnName

_SORT = (
    r"(?:(?:and |, )?(?:order(?:ed)?|sort(?:ed)?|arranged?|rank(?:ed)?|listed|organized?)(?: \w+){0,3}? "
    r"(?:by|according to|based on|from|in)\b(?! the (?:results|output))"
    r"|in (?:the )?(?:\w+ )?(?:ascending|descending|increasing|decreasing|alphabetical|lexicographic\w*|chronological"
    r"|reverse)(?: alphabetical| lexicographic\w*| chronological)?(?: order)?(?: of| by| from)?"
    r"|in (?:the )?order (?:of|by)|alphabetically|from (?:the )?(?:highest|oldest|most|largest|latest|youngest|lowest"
    r"|least|earliest|smallest|shortest|longest) to)"
)
_DESCENDING = (
    r"descending|decreasing|reverse|from (?:the )?(?:highest|oldest|most|largest|latest|longest|high)|desc\b"
)
NUMBER_OF = r"(?:total )?(?:number|numbers|count|amount|quantity)(?: of)?(?: different| distinct| unique)?"
_WORD = "|".join(sorted(SUPERLATIVES, key=len, reverse=True))
_SUPERLATIVE = rf"(?:the )?(?:top )?(?:<n> )?(?P<degree>most |least )?(?P<word>{_WORD})\b"
_COMMON = r"(?:common|popular|frequent|frequently|commonly|often|prevalent|numerous|used|frequently used)\b"
_BEFORE_AGGREGATE = frozenset(AGGREGATES) | words_of(
    """
    what is are was were the find show give return list me us tell and , all value of how much compute
    calculate please display get a an report corresponding along with as well also for each whats
    """
)
_BREAKS = words_of("? ! : who that which with , whose where .")
_AMOUNTS = ("most", "least", "fewest")


@dataclass(frozen=True, slots=True)
class Ordering:
    """What a question says about order."""

    order: tuple[Order, ...] = ()
    limit: int | None = None
    group: ColumnName | None = None  # column to group by, where the order is by a count
    tables: tuple[str, ...] = ()  # tables that must be joined for the order to make sense
    # column that is asked for by the superlative itself ("the most common nationality")
    target: ColumnName | None = None


def read_sorting(text: QuestionText) -> Ordering:
    """Read an explicit sort ("ordered by age descending"); its tokens are used up."""
    for found in text.find(_SORT):
        stop = text.sentence_end(found.end)
        descending = bool(re.search(_DESCENDING, text.between(found.start, stop)))
        text.use(found.start, found.end)
        terms: list[Order] = []
        end = found.end
        for mention in text.columns_in(found.end, stop):
            if terms and mention.start - end > 3:
                break
            function = "AVG" if "average" in text.between(end, mention.start) else ""
            column = text.resolve(mention)
            terms.append(Order(call(function, column) if function else plain(column), descending))
            end = mention.end
        text.use(found.start, end)
        return Ordering(tuple(terms))
    return Ordering()


def read_superlative(text: QuestionText) -> Ordering:
    """Read the first superlative that is no plain aggregate; its tokens are used up."""
    for found in text.find(_SUPERLATIVE):
        previous = text.between(found.start - 1, found.start)
        sorts = "first" in text.between(found.end, found.end + 4).split()  # "the oldest first"
        if not sorts and text.free(found.start, found.end) and previous not in ("at", "or", "from", "to"):
            ordering = _read_one(text, found)
            if ordering is not None:
                text.use(found.start, found.end)
                return replace(ordering, limit=_number(text, found))
    return Ordering()


def _read_one(text: QuestionText, found: TokenMatch) -> Ordering | None:
    """Read one superlative; None when it is an aggregate, or says nothing that can be ordered by."""
    word = found.match["word"]
    descending, hints = SUPERLATIVES[word]
    descending ^= (found.match["degree"] or "").strip() == "least"
    rest = text.between(found.end, found.end + 12)
    if word in _AMOUNTS and (common := re.match(_COMMON, rest)):
        return _most_common(text, found, found.end + len(common[0].split()), descending)
    number_of = re.match(NUMBER_OF + " ", rest)
    mention = next(iter(text.columns_in(found.end, found.end + 5, free=False)), None)
    rows = text.table_at(found.end, reach=1)
    if mention and word in _AMOUNTS and rows and rows.score >= 0.9 > mention.score:
        mention = None
    if mention and any(token.lower in _BREAKS for token in text.tokens[found.end : mention.start]):
        mention = None
    near = mention and (not number_of or mention.start <= found.end + 1 or mention.score >= 1.0)
    if mention and near:
        return _by_column(text, found, mention, descending)
    if number_of or word in _AMOUNTS:
        start = found.end + (len(number_of[0].split()) if number_of else 0)
        return _by_count(text, found, text.table_at(start, reach=3) or mention, descending)
    head = text.table_at(found.end, reach=2)
    tables = dict.fromkeys((text.table_of(head) if head else text.subject, *map(text.table_of, text.tables)))
    hinted = next((one for name in tables if (one := hinted_column(text.schema, hints, name))), None)
    if hinted is None:
        return _by_column(text, found, mention, descending) if mention else None
    return Ordering((Order(plain(hinted[0]), descending != hinted[1]),))


def _number(text: QuestionText, found: TokenMatch) -> int:
    """Return the number said within a superlative."""
    said = (token.text for token in text.tokens[found.start : found.end] if token.kind == "number")
    return next((int(number) for number in said if number.isdigit() and 0 < int(number) < 1000), 1)


def _is_aggregate(text: QuestionText, found: TokenMatch) -> bool:
    """Whether "the highest x" asks for the value itself, not for the row that has it."""
    word, previous = found.match["word"], text.between(found.start - 1, found.start)
    owned = previous in ("with", "has", "have", "had", "having", "whose")
    if word not in AGGREGATES or owned or "<n>" in found.match[0]:
        return False
    marks = (n for n in range(found.start, 0, -1) if text.tokens[n - 1].kind == "mark")
    lead = {token.lower for token in text.tokens[next(marks, 0) : found.start]}
    return word.startswith(("max", "min")) or lead <= _BEFORE_AGGREGATE


def _by_column(
    text: QuestionText, found: TokenMatch, mention: ColumnMention, descending: bool
) -> Ordering | None:
    if _is_aggregate(text, found):
        return None
    column, head = text.resolve(mention), text.head_before(found.start)
    words = text.between(found.start, mention.start).split()
    text.use(found.start, mention.end)
    function = next((AGGREGATES[w] for w in words if w in ("average", "mean", "total", "combined")), "")
    if not function:
        return Ordering((Order(plain(column), descending),))
    return Ordering(
        (Order(call(function, column), descending),), group=text.group_key(head) if head else None
    )


def _by_count(
    text: QuestionText, found: TokenMatch, counted: Mention | None, descending: bool
) -> Ordering | None:
    head = text.head_before(found.start)
    group = text.group_key(head) if head else text.key(text.subject)
    if group is None:
        return None
    tables: tuple[str, ...] = ()
    if counted is not None:
        text.use(found.start, counted.end)
        is_column = isinstance(counted, ColumnMention)
        target = text.resolve(counted).table if isinstance(counted, ColumnMention) else text.table_of(counted)
        tables = (target,) if is_column or target != group.table else ()
    return Ordering((Order(COUNT, descending),), group=group, tables=tables)


def _most_common(text: QuestionText, found: TokenMatch, end: int, descending: bool) -> Ordering | None:
    text.use(found.start, end)
    mention = next(iter(text.columns_in(end, end + 4, free=False)), None)
    if mention and not any(token.lower in _BREAKS for token in text.tokens[end : mention.start]):
        target = text.resolve(mention)
        text.use(mention.start, mention.end)
        return Ordering((Order(COUNT, descending),), group=target, target=target)
    head = text.table_at(end, reach=2) or text.head_before(found.start)
    group = text.group_key(head) if head else None
    tables = (text.subject,) if group and text.subject != group.table else ()
    return Ordering((Order(COUNT, descending),), group=group, tables=tables) if group else None
