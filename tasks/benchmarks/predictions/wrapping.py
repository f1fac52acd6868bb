"""SQL within something else: in a Markdown fence, or behind a database's name and `|` as Picard writes it."""

import re
from collections.abc import Iterable
from typing import Literal

from tasks.backbone.replies.sql_text import read_sql

Wrapping = Literal["in a Markdown fence", "behind a database's name and |"]

_PIPED = re.compile(r"\A\s*+[\w.-]++\s*+\|\s*+(?=(?:select|with)\b)", re.IGNORECASE)


def wrapping(sql: str) -> Wrapping | None:
    """Return within what a SQL stands; None where it stands alone.

    >>> wrapping("concert_singer | select count(*) from singer")
    "behind a database's name and |"
    """
    if sql.lstrip().startswith("```"):
        return "in a Markdown fence"
    return "behind a database's name and |" if _PIPED.match(sql) else None


def unwrapped(sql: str) -> str:
    r"""Return the SQL without what it stands in; unchanged where it stands alone.

    >>> unwrapped("```sql\nSELECT 1\n```"), unwrapped("db | SELECT 2"), unwrapped("SELECT 3")
    ('SELECT 1', 'SELECT 2', 'SELECT 3')
    """
    found = wrapping(sql)
    if found is None:
        return sql
    return _PIPED.sub("", sql, count=1) if found.startswith("behind") else read_sql(sql) or sql


def about_wrapping(sqls: Iterable[str], how: str) -> tuple[str, ...]:
    """Return a remark on the number of wrapped predictions; `how`: in which way they were unwrapped, "" if not."""
    found = [wrapping(sql) for sql in sqls]
    notes = []
    for kind in dict.fromkeys(one for one in found if one):
        count = found.count(kind)
        done = f"was taken out ({how})" if how else "is executed as it is written; --unwrap takes it out"
        notes.append(f"{count:,} of {len(found):,} predictions stand {kind}: the SQL {done}.")
    return tuple(notes)
