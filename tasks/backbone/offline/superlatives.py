"""ORDER BY ... LIMIT as superlatives ask for it: the oldest, the most common, the top three."""

import re

from tasks.backbone.offline.evidence import Hint
from tasks.backbone.offline.joins import counting_tables
from tasks.backbone.offline.lexicon import AGGREGATES, SUPERLATIVES, words_of
from tasks.backbone.offline.linking import ColumnMention, TableMention
from tasks.backbone.offline.naming import hinted_column
from tasks.backbone.offline.ordering import COUNT, NUMBER_OF, Ordering
from tasks.backbone.offline.query import Order, call, plain
from tasks.backbone.offline.text import Found, QuestionText
from tasks.records import ColumnName

_WORD = "|".join(sorted(SUPERLATIVES, key=len, reverse=True))
_SUPERLATIVE = rf"(?:the )?(?:top |first )?(?:<n> )?(?P<degree>most |least )?(?P<word>{_WORD})\b"
_TOP = r"(?:the )?(?:top|first|best) <n>"
_COMMON = r"(?:common|popular|frequent|frequently|commonly|often|prevalent|numerous|used|frequently used)\b"
_BEFORE_AGGREGATE = words_of(
    """
    what is are was were the find show give return list me us tell and , all value of how much compute
    calculate please display get a an report corresponding along with as well also for each whats
    """
) | frozenset(AGGREGATES)
_BREAKS = frozenset({"?", "!", ":", "who", "that", "which", "with", ",", "whose", "where", "."})


def read_superlative(text: QuestionText) -> Ordering:
    """Read the first superlative that is no plain aggregate; its tokens are used up."""
    for hint in text.hints:
        if (
            hint.aggregate in ("MAX", "MIN")
            and hint.formula
            and len(hint.columns) == 1
            and not _asks_for(text, hint)
        ):
            text.use(hint.start, hint.end)
            heads = _number_of_heads(text, hint.start) or 1
            return Ordering((Order(plain(hint.columns[0]), hint.aggregate == "MAX"),), heads)
    for found in text.find(_SUPERLATIVE):
        if not text.free(found.start, found.end) or text.between(found.start - 1, found.start) in (
            "at",
            "or",
            "from",
            "to",
        ):
            continue
        if "first" in text.between(found.end, found.end + 4).split() or found.match[0].startswith("first"):
            continue  # "the oldest first" sorts
        ordering = _read_one(text, found)
        if ordering is not None:
            text.use(found.start, found.end)
            return ordering
    for found in text.find(_TOP):
        if text.free(found.start, found.end):
            limit = _number(text, found)
            by = next(
                iter(
                    text.find(
                        r"(?:by|in terms of|according to|based on|sorted by|ranked by|with the)(?: the)?"
                    )
                ),
                None,
            )
            mention = (
                next(iter(text.columns_in(by.end, by.end + 4)), None) if by and by.start > found.end else None
            )
            if mention:
                text.use(found.start, found.end)
                text.use(mention.start, mention.end)
                return Ordering((Order(plain(text.resolve(mention)), True),), limit)
    return Ordering()


def _asks_for(text: QuestionText, hint: Hint) -> bool:
    """Whether the question asks for the greatest value itself and not for what has it."""
    counted = (
        any(isinstance(part, str) and "COUNT" in part for part in hint.formula.parts)
        if hint.formula
        else False
    )
    return counted or all(token.lower in _BEFORE_AGGREGATE for token in text.tokens[: hint.start])


def _read_one(text: QuestionText, found: Found) -> Ordering | None:
    """Read one superlative; None when it is an aggregate, or says nothing that can be ordered by."""
    word = found.match["word"]
    degree = (found.match["degree"] or "").strip()
    descending, hints = SUPERLATIVES[word]
    if degree == "least":
        descending = not descending
    limit = _number(text, found) or _number_of_heads(text, found.start) or 1
    rest = text.between(found.end, found.end + 12)
    if word in ("most", "least", "fewest") and (common := re.match(_COMMON, rest)):
        end = found.end + len(common[0].split())
        text.use(found.start, end)
        return _most_common(text, found, end, descending, limit)
    covering = next((m for m in text.columns if m.start < found.end <= m.end and m.end - m.start > 1), None)
    if covering is not None and covering.score > 1.3:  # the evidence says what "the largest market" goes by
        return _by_column(text, found, covering, descending, limit)
    number_of = re.match(NUMBER_OF + " ", rest)
    mention = next(iter(text.columns_in(found.end, found.end + 5, free=False)), None)
    rows = text.table_at(found.end, reach=1)
    if rows and mention and rows.score >= 0.9 and mention.score < 0.9 and word in ("most", "fewest", "least"):
        mention = None
    if mention and _broken(text, found.end, mention.start):
        mention = None
    if (
        mention
        and _is_measure(text, mention)
        and (not number_of or mention.start <= found.end + 1 or _counts(text, mention))
    ):
        if _is_aggregate(text, found, mention):
            return None
        return _by_column(text, found, mention, descending, limit)
    if number_of or word in ("most", "fewest", "least"):
        start = found.end + (len(number_of[0].split()) if number_of else 0)
        counted = text.table_at(start, reach=3)
        if counted is None and mention is None and word in ("most", "least", "fewest") and not number_of:
            verb = _head(text, found.start)
            return Ordering((Order(COUNT, descending),), limit, group=_key(text, verb)) if verb else None
        return _by_count(text, found, counted, mention, descending, limit)
    if mention and not hints and not _is_aggregate(text, found, mention):
        return _by_column(text, found, mention, descending, limit)
    head = text.table_at(found.end, reach=2)
    table = text.table_of(head) if head else text.subject
    tables = dict.fromkeys((table, *(text.table_of(m) for m in text.tables)))
    hinted = next((one for name in tables if (one := hinted_column(text.schema, hints, name))), None)
    if hinted is None and mention and not _is_aggregate(text, found, mention):
        return _by_column(text, found, mention, descending, limit)
    if hinted is None:
        return None
    column, turned = hinted
    return Ordering((Order(plain(column), descending != turned),), limit)


def _number(text: QuestionText, found: Found) -> int | None:
    """Return the number said within a pattern."""
    digits = [t.text for t in text.tokens[found.start : found.end] if t.kind == "number" and t.text.isdigit()]
    return int(digits[0]) if digits and 0 < int(digits[0]) < 1000 else None


def _number_of_heads(text: QuestionText, before: int) -> int | None:
    """Return the number said before what has the most: "the two chains with the largest ..."."""
    spans = [(m.start, m.end) for m in text.tables] + [(m.start, m.end) for m in text.columns]
    for start, end in spans:
        index = start - 1
        if index >= 0 and end <= before and text.tokens[index].kind == "number":
            previous = text.between(index - 1, index)
            if text.tokens[index].text.isdigit() and previous in (
                "the",
                "of",
                "list",
                "show",
                "find",
                "give",
                "what",
                "which",
            ):
                text.use(index, index + 1)
                return int(text.tokens[index].text)
    return None


def _broken(text: QuestionText, start: int, end: int) -> bool:
    """Whether a clause ends between two tokens."""
    return any(token.lower in _BREAKS for token in text.tokens[start:end])


def _is_measure(text: QuestionText, mention: ColumnMention) -> bool:
    """Whether a mention can be ordered by: a number or a date, and no key."""
    column = text.schema.column(text.resolve(mention))
    if column.stems[-1:] and column.stems[-1] in ("id", "cod"):
        return False
    dated = any(s in ("dat", "year", "tim") for s in column.stems)
    return (
        dated
        or column.kind == "number"
        or (column.kind == "unknown" and column.stems[-1:] != ("nam",))
        or any(re.match(r"[\d$-]", sample) for sample in column.samples)
    )


def _counts(text: QuestionText, mention: ColumnMention) -> bool:
    """Whether a column holds a number of something."""
    return "number" in text.schema.column(mention.columns[0]).stems or mention.score >= 1.0


def _is_aggregate(text: QuestionText, found: Found, mention: ColumnMention) -> bool:
    """Whether "the highest x" asks for the value itself, not for the row that has it."""
    word = found.match["word"]
    between = [token.lower for token in text.tokens[found.end : mention.start]]
    others = [
        one for one in between if one not in AGGREGATES and one not in ("and", ",", "number", "of", "the")
    ]
    if word not in AGGREGATES or len(others) > 3 or _number(text, found):
        return False
    previous = text.between(found.start - 1, found.start)
    if previous in ("with", "has", "have", "had", "having", "whose"):
        return False
    if word in ("maximum", "minimum", "max", "min", "maximal", "minimal"):
        return True
    start = found.start
    while start > 0 and text.tokens[start - 1].kind != "mark":
        start -= 1
    return all(token.lower in _BEFORE_AGGREGATE for token in text.tokens[start : found.start])


def _by_column(
    text: QuestionText, found: Found, mention: ColumnMention, descending: bool, limit: int
) -> Ordering:
    """Order by a column, or by its average or sum over groups."""
    column = text.resolve(mention)
    words = text.between(found.start, mention.start).split()
    text.use(found.start, mention.end)
    function = next((AGGREGATES[w] for w in words if w in ("average", "mean", "total", "combined")), "")
    if not function:
        return Ordering((Order(plain(column), descending),), limit)
    head = _head(text, found.start)
    return Ordering(
        (Order(call(function, column), descending),), limit, group=_key(text, head) if head else None
    )


def _by_count(
    text: QuestionText,
    found: Found,
    counted: TableMention | None,
    mention: ColumnMention | None,
    descending: bool,
    limit: int,
) -> Ordering | None:
    """Order groups by how many rows they have."""
    head = _head(text, found.start)
    tables: tuple[str, ...] = ()
    if counted is not None:
        text.use(found.start, counted.end)
        target = text.table_of(counted)
    elif mention is not None:
        column = text.resolve(mention)
        target = column.table
        text.use(found.start, mention.end)
    else:
        return None
    group = _key(text, head) if head else None
    if group is None:
        subject = text.subject
        group = text.key(subject) if subject and subject != target else None
    if group is None:
        return None
    if counted is None and mention is not None and text.resolve(mention) != group:
        distinct = call("COUNT", text.resolve(mention), distinct=True)
        return Ordering(
            (Order(distinct if target == group.table else COUNT, descending),), limit, group, (target,)
        )
    tables = counting_tables(text.schema, group.table, target)
    return Ordering((Order(COUNT, descending),), limit, group, tables)


def _most_common(text: QuestionText, found: Found, end: int, descending: bool, limit: int) -> Ordering | None:
    """Order the values of a column by how often they occur."""
    mention = next(iter(text.columns_in(end, end + 4, free=False)), None)
    if mention is not None and not _broken(text, end, mention.start):
        target = text.resolve(mention)
        text.use(mention.start, mention.end)
        return Ordering((Order(COUNT, descending),), limit, target, target=target)
    after = text.table_at(end, reach=2)
    head = after or _head(text, found.start)
    group = _key(text, head) if head else None
    if group is None:
        return None
    subject = text.subject
    tables = (subject,) if subject and subject != group.table else ()
    return Ordering((Order(COUNT, descending),), limit, group, tables)


def _head(text: QuestionText, before: int) -> ColumnMention | TableMention | None:
    """Return what has the most: the nearest mention before a token, in the same sentence."""
    start = before
    while start > 0 and text.tokens[start - 1].text not in (".", "?"):
        start -= 1
    tables = [m for m in text.tables if start <= m.start and m.end <= before]
    columns = [m for m in text.columns if start <= m.start and m.end <= before and text.free(m.start, m.end)]
    if columns and (not tables or columns[-1].end > tables[-1].end):
        return columns[-1]
    return tables[-1] if tables else None


def _key(text: QuestionText, head: ColumnMention | TableMention) -> ColumnName | None:
    """Return the column to group by for a mention."""
    if isinstance(head, TableMention):
        return text.key(text.table_of(head))
    column = text.resolve(head)
    if text.is_name(column):
        return text.key(column.table)
    return column
