"""Translation of SQL from one dialect into another, by sqlglot."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tasks.database.dialects import dialect_of
from tasks.sql.parsing import parse


@dataclass(frozen=True, slots=True)
class Transpiled:
    """A translated SQL."""

    sql: str  # the translation; the SQL itself where it is the same in both dialects, or cannot be translated
    changed: bool = False  # whether the translation differs in more than blanks and quotes
    problem: str = ""  # why it cannot be translated, "" where it can


def transpile(sql: str, source: str, target: str, columns: AbstractSet[str] = frozenset()) -> Transpiled:
    """Translate a SQL from one dialect into another, both as sqlglot names them.

    A name that needs no quotes loses them where the target reads names without quotes in lower case. Text in double
    quotes that is no column, which SQLite reads as a text, becomes one where the columns are known. The names of
    columns are in lower case; without any, they are not known.

    >>> transpile("SELECT IIF(`Age` > 9, 1, 0) FROM t", "sqlite", "postgres").sql
    'SELECT CASE WHEN age > 9 THEN 1 ELSE 0 END FROM t'
    >>> transpile("SELECT a FROM t WHERE b = 'x'", "sqlite", "postgres").changed
    False
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    parsed = parse(sql, source)
    if parsed.tree is None:
        return Transpiled(sql, problem=parsed.reason)
    tree, folded = parsed.tree.copy(), dialect_of(target).folded
    for name in list(tree.find_all(exp.Column)):
        text = name.this
        if (
            isinstance(text, exp.Identifier)
            and text.quoted
            and not name.table
            and _is_text(sql, text.name, columns)
        ):
            name.replace(exp.Literal.string(text.name))
    for identifier in tree.find_all(exp.Identifier):
        if identifier.quoted and folded(identifier.name.upper()) != identifier.name.upper():
            identifier.set("this", folded(identifier.name))
            identifier.set("quoted", identifier.name in dialect_of(target).reserved)
    try:
        written = tree.sql(target)
    except (SqlglotError, ValueError, AttributeError) as error:
        return Transpiled(sql, problem=str(error).strip().split("\n")[0])
    bare, same = _bare(written), _bare(tree.sql(source))
    return Transpiled(written, changed=bare != same)


def _is_text(sql: str, name: str, columns: AbstractSet[str]) -> bool:
    return bool(columns) and f'"{name}"' in sql and name.lower() not in columns


def _bare(sql: str) -> str:
    return "".join(sql.split()).replace('"', "").replace("`", "").lower()
