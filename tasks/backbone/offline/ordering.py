"""ORDER BY as a question asks for it."""

import re
from dataclasses import dataclass

from tasks.backbone.offline.query import Order, call, plain
from tasks.backbone.offline.text import QuestionText
from tasks.records import ColumnName

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


@dataclass(frozen=True, slots=True)
class Ordering:
    """What a question says about order.

    Attributes:
        order: the terms, () when nothing is said.
        limit: rows asked for, None for all.
        group: column to group by, where the order is by a count.
        tables: tables that must be joined for the order to make sense.
        target: column that is asked for by the superlative itself ("the most common nationality").
    """

    order: tuple[Order, ...] = ()
    limit: int | None = None
    group: ColumnName | None = None
    tables: tuple[str, ...] = ()
    target: ColumnName | None = None


COUNT = call("COUNT", None)


def read_sorting(text: QuestionText) -> Ordering:
    """Read an explicit sort ("ordered by age descending"); its tokens are used up."""
    for found in text.find(_SORT):
        stop = text.sentence_end(found.end)
        tail = text.between(found.start, stop)
        descending = bool(re.search(_DESCENDING, tail))
        terms: list[Order] = []
        counted = re.match(rf"(?:the )?{NUMBER_OF} ", text.between(found.end, stop) + " ")
        end = found.end
        tables: tuple[str, ...] = ()
        mentions = text.columns_in(found.end, stop)
        if counted and not any(
            m.start <= found.end + 2 and text.schema.column(m.columns[0]).kind == "number"
            for m in mentions[:1]
        ):
            terms.append(Order(COUNT, descending))
            table = next((t for t in text.tables if t.start > found.end), None)
            tables = (text.table_of(table),) if table else ()
            end = table.end if table else found.end + 2
        else:
            for mention in mentions:
                if terms and mention.start - end > 3:
                    break
                words = text.between(end, mention.start)
                if re.search(r"\b(?:show|list|what|give|find|whose|for each|of each)\b", words):
                    break
                function = "AVG" if "average" in words else "SUM" if "total" in words else ""
                column = text.resolve(mention)
                terms.append(Order(call(function, column) if function else plain(column), descending))
                end = mention.end
        text.use(found.start, max(end, found.end))
        if terms:
            for index in range(end, stop):
                if text.tokens[index].lower in (
                    "descending",
                    "ascending",
                    "order",
                    "in",
                    "decreasing",
                    "increasing",
                ):
                    text.used.add(index)
            return Ordering(tuple(terms), tables=tables)
        return Ordering()
    return Ordering()
