"""Mentions: which words of a question name which tables and columns (schema linking)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.backbone.offline.prompt.english import GLUE, STOP, UNITS, Token, likeness, stem, stems
from tasks.backbone.offline.prompt.schema import PromptSchema, SchemaColumn, SchemaTable
from tasks.core.records import ColumnName

_FILLER = frozenset(stems("of the in for to and a is on at by"))
_UNITS = frozenset(map(stem, UNITS))
_GENERIC = frozenset(stems("name id code number type date description details"))
_TIE = 0.12  # difference of scores up to which columns fit equally well


@dataclass(frozen=True, slots=True)
class ColumnMention:
    """Words that name a column."""

    start: int
    end: int
    columns: tuple[ColumnName, ...]  # the columns that fit equally well, in schema order
    score: float  # how well they fit, in 0..1.4; below 0.6 only a part of the name is said


@dataclass(frozen=True, slots=True)
class TableMention:
    """Words that name a table; several where they fit equally well."""

    start: int
    end: int
    tables: tuple[str, ...]
    score: float


Mention = ColumnMention | TableMention


class _Words:
    """The words of a question, with the places where each word of the schema is said, looked up once per word."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.lower = frozenset(token.lower for token in tokens)
        self._said: dict[str, dict[int, float]] = {}

    def said(self, named: str) -> dict[int, float]:
        """Return the tokens that say a stem of the schema, and how alike they are."""
        if named not in self._said:
            words = ((n, token) for n, token in enumerate(self.tokens) if token.stem)
            alike = ((n, likeness(token.stem, named)) for n, token in words if token.lower not in STOP)
            self._said[named] = {n: degree for n, degree in alike if degree > 0}
        return self._said[named]

    def spans(self, named: Sequence[str], owner: Sequence[str] = ()) -> Iterator[list[int]]:
        """Yield the runs of up to five words of a name or of its table, with nothing but glue between them."""
        own = {index for one in named for index in self.said(one)}
        every = sorted(own | {index for one in owner for index in self.said(one)}) if own else []
        for position in range(len(every)):
            span: list[int] = []
            for index in every[position : position + 5]:
                if span and any(token.lower not in GLUE for token in self.tokens[span[-1] + 1 : index]):
                    break
                span.append(index)
                if not own.isdisjoint(span):
                    yield list(span)

    def coverage(self, span: Sequence[int], named: Sequence[str]) -> tuple[float, int]:
        """Return how much of the words of a name a span covers, each word once, and by how many tokens."""
        left = list(named)
        total, words = 0.0, 0
        for index in span:
            degree, best = max(((self.said(one).get(index, 0.0), one) for one in left), default=(0.0, ""))
            if degree:
                total, words = total + degree, words + 1
                left.remove(best)
        return total, words


def column_mentions(tokens: Sequence[Token], schema: PromptSchema) -> tuple[ColumnMention, ...]:
    """Return the column mentions of a question by position: none overlaps another, the longest and best win."""
    words = _Words(tokens)
    claims: dict[tuple[int, int], list[tuple[float, ColumnName, int]]] = defaultdict(list)
    for table in schema.tables:
        for column in table.columns:
            for span, score in _claims(words, column, table):
                claims[span[0], span[-1] + 1].append((score, column.name, len(span)))
    ranked = sorted(
        claims.items(), key=lambda item: (-max(size + score for score, _, size in item[1]), item[0])
    )
    taken: set[int] = set()
    found = []
    for (start, end), several in ranked:
        if taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            best = max(score for score, _, _ in several)
            most = max(size for score, _, size in several if score == best)
            columns = (name for score, name, size in several if score >= best - _TIE and size >= most - 1)
            found.append(ColumnMention(start, end, tuple(dict.fromkeys(columns)), best))
    return tuple(sorted(found, key=lambda mention: mention.start))


def table_mentions(tokens: Sequence[Token], schema: PromptSchema) -> tuple[TableMention, ...]:
    """Return the table mentions of a question, which may overlap column mentions but not each other."""
    words = _Words(tokens)
    claims: list[tuple[float, int, int, str]] = []
    for table in schema.tables:
        named = _without_filler(table.stems)
        for span in words.spans(named):
            matched, count = words.coverage(span, named)
            share = matched / len(named)
            if share >= 0.6 or (share >= 0.3 and span[-1] in words.said(named[-1])):
                claims.append((share + 0.2 * count, span[0], span[-1] + 1, table.name))
    claims.sort(key=lambda claim: (-claim[0], claim[1]))
    found: list[TableMention] = []
    for score, start, end, _ in claims:
        if not any(start < other.end and other.start < end for other in found):
            tied = (claim[3] for claim in claims if claim[1:3] == (start, end) and claim[0] >= score - 0.01)
            found.append(TableMention(start, end, tuple(dict.fromkeys(tied)), score))
    return tuple(sorted(found, key=lambda mention: mention.start))


def _without_filler(words: Sequence[str]) -> list[str]:
    return [word for word in words if word not in _FILLER] or list(words)


def _claims(words: _Words, column: SchemaColumn, table: SchemaTable) -> Iterator[tuple[list[int], float]]:
    """Yield the spans that say a column's name well enough, with how well."""
    named = _without_filler(column.stems)
    named = [one for one in named if one not in _UNITS or 1.0 in words.said(one).values()] or named
    short = [one for one in named if one not in table.stems] or named
    whole = column.name.column.lower()
    if len(named) > 1 and whole in words.lower:
        named = short = [stem(whole)]
    for span in words.spans(named, table.stems) if named else ():
        matched, count = words.coverage(span, named)
        own, own_count = words.coverage(span, short)
        extra = [index for index in span if not any(index in words.said(one) for one in named)]
        if not count or (not own_count and matched < len(named)):
            continue
        if len(span) > count and words.coverage(extra, table.stems)[1] < len(span) - count:
            continue
        covered = max(matched / len(named), own / len(short) * 0.98 if own_count else 0.0)
        rest = [one for one in short if not any(index in words.said(one) for index in span)]
        most = covered >= 0.6 or span[-1] in words.said(named[-1]) or all(one in _GENERIC for one in rest)
        if covered >= 0.3 and most:
            yield span, min(covered, 1.0) + 0.1 * min(len(span) - count, 2)
