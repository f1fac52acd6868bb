"""GROUP BY and HAVING as a question asks for them."""

from dataclasses import dataclass

from sqlglot import exp

from tasks.backbone.offline.question.mentions import ColumnMention, Mention, TableMention
from tasks.backbone.offline.question.query import COUNT, Expression, compare
from tasks.backbone.offline.question.text import QuestionText, TokenMatch
from tasks.core.records import ColumnName

_EACH = (
    r"(?:, )?(?:(?:(?:for|of|in|by|from|at|to|on|with|per|within|does|do|did|under|across|and) )?(?:each|every|per)"
    r"|(?:for|in|by|across|(?<!number )(?<!kinds )(?<!types )of) (?:the |all |all the )?(?:different|various))"
    r"(?: of)?(?: the)?(?: different| distinct| unique| possible)?"
)
_AMOUNT = (
    r"(?:(?P<op>more than|over|greater than|above|at least|no less than|no fewer than|less than|fewer than|under|below"
    r"|at most|no more than|exactly|only|larger than|not less than|minimum of|a minimum of) )?(?P<n><n>|one|a|zero)"
    r"(?P<after> or more| or less| or fewer| or above)?(?P<unit> times?| different| distinct| unique)?"
)
_OPERATORS = {
    "more than": ">", "over": ">", "greater than": ">", "above": ">", "larger than": ">", "at least": ">=",
    "no less than": ">=", "no fewer than": ">=", "not less than": ">=", "less than": "<", "fewer than": "<",
    "under": "<", "below": "<", "at most": "<=", "no more than": "<=", "exactly": "=", "only": "=",
    "minimum of": ">=", "a minimum of": ">=", "or more": ">=", "or above": ">=", "or less": "<=", "or fewer": "<=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grouping:
    """What a question says about groups."""

    group: ColumnName | None = None
    # columns that stand for the group in the result, () where the question does not name the group
    shown: tuple[ColumnName, ...] = ()
    having: Expression | None = None
    tables: tuple[str, ...] = ()  # tables that must be joined for the counts to make sense
    position: int = 0  # index of the token that names the group


def read_grouping(text: QuestionText) -> Grouping:
    """Read "for each x" and "per x" in a question for an aggregate; their tokens are used up."""
    for found in text.find(_EACH):
        if not text.free(found.start, found.end):
            continue
        column = next((m for m in text.columns if found.end <= m.start <= found.end + 1), None)
        table = text.table_at(found.end, reach=1)
        if column and (table is None or table.end <= column.end) and column.score >= 0.6:
            if text.free(column.start, column.end):
                name = text.resolve(column)
                text.use(found.start, column.end)
                return Grouping(text.group_key(column), (name,), position=column.start)
        elif table and (key := text.group_key(table)):
            text.use(found.start, table.end)
            return Grouping(key, text.name_columns(text.table_of(table)), position=table.start)
    return Grouping()


def read_having(text: QuestionText) -> Grouping:
    """Read a condition on groups, as "more than two concerts"; its tokens are used up."""
    for found in text.find(_AMOUNT):
        operator = _OPERATORS.get((found.match["after"] or "").strip() or found.match["op"] or "", "")
        unit = (found.match["unit"] or "").strip()
        number = next((t.text for t in text.tokens[found.start : found.end] if t.kind == "number"), "1")
        number = "0" if found.match["n"] == "zero" else number
        if not text.free(found.start, found.end) or not number.isdigit() or int(number) > 200:
            continue
        if operator or (found.match["n"] == "<n>" and unit):
            test = compare(COUNT, operator or "=", exp.Literal.number(number))
            if grouping := _having_at(text, found, test, times=unit.startswith("time")):
                return grouping
    return Grouping()


def _having_at(text: QuestionText, found: TokenMatch, test: Expression, *, times: bool) -> Grouping | None:
    """Return the condition for an amount, None when what follows is no countable thing."""
    head = text.head_before(found.start)
    group = text.group_key(head) if head else None
    counted = text.table_at(found.end, reach=2)
    column = next((m for m in text.columns if found.end <= m.start <= found.end + 1), None)
    thing: Mention | None = counted or column
    if group is None or (thing is None and not times):
        return None
    if times or thing is None:
        text.use(found.start, found.end)
        others = [table for m in text.tables if (table := text.table_of(m)) != group.table]
        return Grouping(group, (), test, tuple(others[-1:]) if isinstance(head, TableMention) else ())
    if column and _is_quantity(text, column):
        return None
    target = text.table_of(counted) if counted else text.resolve(column).table if column else ""
    if counted and target == group.table and isinstance(head, TableMention):
        return None
    text.use(found.start, thing.end)
    tables = () if target == group.table else (target,)
    return Grouping(group, (), test, tables)


def _is_quantity(text: QuestionText, mention: ColumnMention) -> bool:
    column = text.schema.column(mention.columns[0])
    return column.kind == "number" and mention.score >= 0.9 and column.stems[-1] != "id"
