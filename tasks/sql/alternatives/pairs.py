"""Alternatives of a query: SQL that another correct engine, row order or plan could execute in its place.

Each is a pair of queries. If their results differ, the data and the query do not decide the result:

- `limit_tie`: rows that ORDER BY leaves equal, at the cut of a LIMIT; sorted by the output, upwards and downwards.
- `limit_without_order`: a LIMIT without ORDER BY; sorted by the output, upwards and downwards.
- `order_tie`: rows that the outermost ORDER BY leaves equal, where the rule compares the order.
- `bare_column`: a column beside an aggregate that is not in GROUP BY; its least and its greatest value of the group.
- `extreme_row`: the same beside one MIN or MAX. SQLite takes the column from the row of that value, other engines not.
- `text_number`: numbers in a column of texts, sorted as texts and as numbers.
- `null_order`: NULL before and after the other values of an ORDER BY.
- `float_sum`: a sum of numbers in one and in two parts, as a parallel plan computes it.

Both queries of a pair break ties in the same way, except for the kinds about ties. Execute both to know
whether their results differ. The width of a subquery that selects `*` is unknown, so its ties are not broken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.sql.alternatives.bare_columns import bare_columns, has_one_extreme, selects, wrap
from tasks.sql.alternatives.kinds import Kind
from tasks.sql.alternatives.sort_keys import cast, ordered, probe, sort_keys
from tasks.sql.alternatives.sums import sum_in_parts
from tasks.sql.alternatives.ties import TIES, break_ties, queries
from tasks.sql.parsing import parse

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Pair:
    """Two queries that are equally correct readings of one."""

    kind: Kind
    one: str
    other: str


@dataclass(frozen=True)
class Alternatives:
    """A query whose alternatives can be written."""

    tree: "exp.Expr"  # never changed
    dialect: str

    @property
    def same(self) -> str:
        """The query as sqlglot writes it: a result other than the query's own means that it cannot be rewritten."""
        return self.tree.sql(dialect=self.dialect)

    @property
    def probes(self) -> tuple[str, ...]:
        """Queries whose only column are the values of a sort key, or of an argument of MIN or MAX, in their order."""
        return tuple(probe(key).sql(dialect=self.dialect) for key in sort_keys(self.tree))

    def pairs(self, width: int, text_numbers: Sequence[bool]) -> Iterator[Pair]:
        """Yield the pairs that apply.

        Args:
            width: columns of the query's result.
            text_numbers: of each probe, whether its values are numbers in texts.
        """
        for kind, pick in TIES.items():
            if any(pick(self.tree, node) for node in queries(self.tree)):
                yield Pair(kind, self._broken(self.tree, width), self._broken(self.tree, width, pick))
        bare, least, greatest = self.tree.copy(), self.tree.copy(), self.tree.copy()
        found = [(select, bare_columns(select)) for select in selects(bare)]
        if any(columns for _, columns in found):
            extreme = all(has_one_extreme(select) for select, columns in found if columns)
            for tree, name in ((least, "Min"), (greatest, "Max")):
                for select in selects(tree):
                    wrap(bare_columns(select), name)
            yield Pair(
                "extreme_row" if extreme else "bare_column",
                self._broken(least, width),
                self._broken(greatest, width),
            )
        if any(text_numbers):
            as_texts, as_numbers = self.tree.copy(), self.tree.copy()
            cast(as_texts, text_numbers, inside=False)
            cast(as_numbers, text_numbers, inside=True)
            yield Pair("text_number", self._broken(as_texts, width), self._broken(as_numbers, width))
        if any(True for _ in ordered(self.tree)):
            turned = self.tree.copy()
            for term in ordered(turned):
                term.set("nulls_first", not term.args.get("nulls_first"))
            yield Pair("null_order", self._broken(self.tree, width), self._broken(turned, width))
        in_parts = self.tree.copy()
        if sum_in_parts(in_parts):
            yield Pair("float_sum", self._broken(self.tree, width), self._broken(in_parts, width))

    def _broken(
        self,
        tree: "exp.Expr",
        width: int,
        downwards: "Callable[[exp.Expr, exp.Expr], bool] | None" = None,
    ) -> str:
        """Write a tree with its ties broken by the output: upwards, or downwards in the queries that are named."""
        copy = tree.copy()
        for node in list(queries(copy)):
            break_ties(
                node, width if node is copy else None, downwards=bool(downwards and downwards(copy, node))
            )
        return copy.sql(dialect=self.dialect)


def find_alternatives(sql: str, dialect: str) -> Alternatives | None:
    """Return the alternatives of a query; None where sqlglot cannot parse it, or it is no query.

    >>> found = find_alternatives("SELECT a FROM t ORDER BY b LIMIT 1", "sqlite")
    >>> next(found.pairs(1, [False])).other
    'SELECT a FROM t ORDER BY b, 1 DESC LIMIT 1'
    """
    from sqlglot import exp

    tree = parse(sql, dialect).tree
    return Alternatives(tree, dialect) if isinstance(tree, exp.Query) else None
