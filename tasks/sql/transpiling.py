"""Translation of SQL from one dialect into another, by sqlglot."""

import re
from dataclasses import dataclass
from typing import Literal

from tasks.database.dialects import SQLITE, dialect_of
from tasks.database.schema import Schema
from tasks.sql.parsing import exp, first_line, parse, write
from tasks.sql.resolution import resolve

Kind = Literal["integer", "real", ""]
"""Kind of an expression's values; "" where it is not known."""
_INTEGER = re.compile(r"INT(?!ERVAL)")
_REAL = re.compile(r"REAL|FLOA|DOUB")


def keep_results(tree: "exp.Expr", schema: Schema | None, *, typed_division: bool) -> bool:
    """Rewrite what SQLite computes in another way than other engines; return whether a division may still differ.

    SQLite's LIKE ignores case, `/` of integers truncates, `%` is of integers, a cast of a fraction to an integer
    truncates, where others round, and a negative start of SUBSTR counts from the end.

    Args:
        tree: the query, which is changed.
        schema: the schema of its database; None: it is not known.
        typed_division: whether `/` of integers truncates in the other dialect as well.
    """
    kinds = _Kinds(tree, schema)
    divisions = [] if typed_division else list(tree.find_all(exp.Div))
    operands = [(division, kinds.of(division.left), kinds.of(division.right)) for division in divisions]
    for cast in list(tree.find_all(exp.Cast)):
        if cast.to.is_type(*exp.DataType.INTEGER_TYPES) and kinds.of(cast.this) == "real":
            cast.set("this", exp.Trunc(this=cast.this))
    for modulo in list(tree.find_all(exp.Mod)):
        for side in (modulo.left, modulo.right):
            if kinds.of(side) == "real":
                side.replace(exp.cast(exp.Trunc(this=side.copy()), "BIGINT"))
    for part in list(tree.find_all(exp.Substring)):
        if isinstance(start := part.args.get("start"), exp.Neg):
            end = exp.Right(this=part.this, expression=start.this)
            length = part.args.get("length")
            part.replace(exp.Left(this=end, expression=length) if length else end)
    for like in list(tree.find_all(exp.Like)):
        like.replace(exp.ILike(**like.args))
    for division, left, right in operands:
        if left == right == "integer":
            divisor = exp.Nullif(this=division.right, expression=exp.Literal.number(0))
            division.replace(exp.IntDiv(this=division.left, expression=divisor))
    # a side of unknown kind may be an integer; beside a real number that makes no difference
    return any("" in (left, right) and "real" not in (left, right) for _, left, right in operands)


class _Kinds:
    """Kinds of the expressions of one query."""

    def __init__(self, tree: "exp.Expr", schema: Schema | None) -> None:
        resolution = resolve(tree, schema) if schema and isinstance(tree, exp.Query) else None
        self._homes = {id(column): home for column, home in resolution.columns} if resolution else {}
        self._types = (
            {(t.name.lower(), c.name.lower()): c.type.upper() for t in schema.tables for c in t.columns}
            if schema
            else {}
        )

    def of(self, node: "exp.Expr") -> Kind:
        """Return the kind of an expression's values; "" for a text, and where it is not known.

        A column and a cast have the kind of their type; arithmetic, MIN, CASE and the like that of their operands.
        """
        if isinstance(node, exp.Literal):
            number_kind: Kind = "integer" if node.is_int else "real"
            return "" if node.is_string else number_kind
        if isinstance(node, exp.Column):
            home = self._homes.get(id(node))
            return _kind(self._types.get(home, "")) if home else ""
        if isinstance(node, exp.Cast):
            return _kind(node.to.sql().upper())
        if isinstance(node, exp.Count | exp.Length):
            return "integer"
        if isinstance(node, exp.Avg | exp.Round):
            return "real"
        if isinstance(node, exp.Paren | exp.Neg | exp.Sum | exp.Min | exp.Max | exp.Abs | exp.Distinct):
            return self._common([node.this, *node.expressions])
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
            return self._common([node.left, node.right])
        if isinstance(node, exp.Case):
            return self._common([*(case.args["true"] for case in node.args["ifs"]), node.args.get("default")])
        if isinstance(node, exp.If):
            return self._common([node.args["true"], node.args.get("false")])
        if isinstance(node, exp.Subquery) and len(node.selects) == 1:
            return self._common([node.selects[0].unalias()])
        return ""

    def _common(self, nodes: "list[exp.Expr | None]") -> Kind:
        """Return the kind of values of which each may take part; NULL and absent ones do not count."""
        kinds = {self.of(node) for node in nodes if node is not None and not isinstance(node, exp.Null)}
        if kinds == {"integer"}:
            return "integer"
        return "real" if "real" in kinds and "" not in kinds else ""


def _kind(declared: str) -> Kind:
    if _INTEGER.search(declared) and "POINT" not in declared:
        return "integer"
    return "real" if _REAL.search(declared) else ""


def _spell_tables(tree: "exp.Expr", schema: Schema | None) -> None:
    """Spell each table as its schema does, and each alias in one way, for a dialect that tells their case apart."""
    aliases = [alias.this for alias in tree.find_all(exp.TableAlias)]
    spelling = {alias.name.lower(): alias.name for alias in aliases if alias}
    spelling |= {table.name.lower(): table.name for table in schema.tables} if schema else {}
    qualifiers = [column.args.get("table") for column in tree.find_all(exp.Column)]
    for name in (*aliases, *qualifiers, *(table.this for table in tree.find_all(exp.Table))):
        if isinstance(name, exp.Identifier):
            name.set("this", spelling.get(name.name.lower(), name.name))


@dataclass(frozen=True, slots=True)
class Transpiled:
    """A translated SQL."""

    sql: str  # the translation; the SQL itself where it is the same in both dialects, or cannot be translated
    changed: bool = False  # whether the translation differs in more than blanks and quotes
    problem: str = ""  # why it cannot be translated, "" where it can
    # whether it divides values of which it is not known whether they are integers: its result may be another
    unknown_division: bool = False


def transpile(sql: str, source: str, target: str, schema: Schema | None = None) -> Transpiled:
    """Translate a SQL from one dialect into another, both as sqlglot names them.

    A name that needs no quotes loses them where the target reads names without quotes in lower case. Where the schema
    is known, text in double quotes that is no column, which SQLite reads as a text, becomes one, and tables are spelled
    as in the schema where the target tells their case apart. SQLite's LIKE, which ignores case, its division of
    integers, and its casts of fractions to integers keep their results.

    >>> transpile("SELECT IIF(`Age` > 9, 1, 0) FROM t", "sqlite", "postgres").sql
    'SELECT CASE WHEN age > 9 THEN 1 ELSE 0 END FROM t'
    >>> transpile("SELECT a FROM t WHERE b = 'x'", "sqlite", "postgres").changed
    False
    >>> transpile("SELECT count(a) / 2 FROM t WHERE b LIKE 'x%'", "sqlite", "duckdb").sql
    "SELECT COUNT(a) // NULLIF(2, 0) FROM t WHERE b ILIKE 'x%'"
    """
    from sqlglot import Dialect
    from sqlglot.errors import SqlglotError

    parsed = parse(sql, source)
    if parsed.tree is None:
        return Transpiled(sql, problem=parsed.reason)
    tree = parsed.tree.copy()
    folded = dialect_of(target).folded
    columns = {name.column.lower() for name in schema.column_names} if schema else set()
    unknown_division = False
    for name in list(tree.find_all(exp.Column)):
        text = name.this
        is_quoted = isinstance(text, exp.Identifier) and text.quoted and not name.table
        if is_quoted and columns and f'"{text.name}"' in sql and text.name.lower() not in columns:
            name.replace(exp.Literal.string(text.name))
    if source == SQLITE:
        typed_division = Dialect.get_or_raise(target).TYPED_DIVISION
        unknown_division = keep_results(tree, schema, typed_division=typed_division)
    if dialect_of(target).cased_names and not dialect_of(source).cased_names:
        _spell_tables(tree, schema)
    for identifier in tree.find_all(exp.Identifier):
        # the target reads such a name in lower case where it has no quotes
        if identifier.quoted and folded(identifier.name.upper()) != identifier.name.upper():
            identifier.set("this", folded(identifier.name))
            identifier.set("quoted", identifier.name in dialect_of(target).reserved)
    try:
        translated = write(tree, target)
        as_parsed = write(parsed.tree, source)
    except (SqlglotError, ValueError, AttributeError) as error:
        return Transpiled(sql, problem=first_line(error))
    if not translated or not as_parsed:
        return Transpiled(sql, problem="its functions are nested too deeply")
    changed = _compact(translated) != _compact(as_parsed)
    return Transpiled(translated, changed=changed, unknown_division=unknown_division)


def _compact(sql: str) -> str:
    """Return a SQL without blanks and quotes."""
    return "".join(sql.split()).replace('"', "").replace("`", "").lower()
