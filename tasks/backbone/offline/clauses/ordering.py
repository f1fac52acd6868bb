"""ORDER BY as a question asks for it."""

import re
from dataclasses import dataclass

from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.sql.query import Order, call, plain
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
        group: column to group by, where the order is by a count.
        tables: tables that must be joined for the order to make sense.
        target: column that is asked for by the superlative itself ("the most common nationality").
    """

    order: tuple[Order, ...] = ()
    limit: int | None = None
    group: ColumnName | None = None
    tables: tuple[str, ...] = ()
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
