"""Names in SQL: when they need quotes, and how a dialect writes them."""

from tasks.database.dialects import PLAIN_NAME, dialect_of
from tasks.database.dialects import SQLITE as SQLITE


def quoted(name: str, dialect: str) -> str:
    """Return a name in quotes, quotes within it doubled.

    >>> quoted("free meal", "sqlite")
    '`free meal`'
    >>> quoted('a"b', "postgres")
    '"a""b"'
    """
    mark = dialect_of(dialect).quote
    return mark + name.replace(mark, mark * 2) + mark


def quoted_if_needed(name: str, dialect: str) -> str:
    """Return a name unchanged where SQL can read it so, in quotes otherwise.

    >>> [quoted_if_needed(name, "sqlite") for name in ("name", "order", "%")]
    ['name', '`order`', '`%`']
    >>> [quoted_if_needed(name, "postgres") for name in ("name", "Name", "user")]
    ['name', '"Name"', '"user"']
    """
    known = dialect_of(dialect)
    folded = known.folds and name != name.lower()
    plain = PLAIN_NAME.match(name) and name.lower() not in known.reserved and not folded
    return name if plain else quoted(name, dialect)
