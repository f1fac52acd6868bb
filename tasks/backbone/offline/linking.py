"""Schema linking: which words of a question name which tables and columns."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.backbone.offline.lexicon import GLUE, STOP, UNITS
from tasks.backbone.offline.schema import PromptSchema, SchemaColumn, SchemaTable
from tasks.backbone.offline.words import Token, likeness, stem
from tasks.records import ColumnName

_FILLER = frozenset(
    stem(word) for word in ("of", "the", "in", "for", "to", "and", "a", "is", "on", "at", "by")
)
_UNITS = frozenset(stem(word) for word in UNITS)
_GENERIC = frozenset(
    stem(word) for word in ("name", "id", "code", "number", "type", "date", "description", "details")
)
_TIE = 0.12


@dataclass(frozen=True, slots=True)
class ColumnMention:
    """Words that name a column.

    Attributes:
        start: index of the first token.
        end: index after the last token.
        columns: the columns that fit equally well, in schema order.
        score: how well they fit, in 0..1.4; below 0.6 only a part of the name is said.
    """

    start: int
    end: int
    columns: tuple[ColumnName, ...]
    score: float


@dataclass(frozen=True, slots=True)
class TableMention:
    """Words that name a table; several where they fit equally well."""

    start: int
    end: int
    tables: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True)
class _Hit:
    """One column's claim on a span of tokens."""

    start: int
    end: int
    name: ColumnName
    score: float
    words: int


class _Words:
    """The words of a question, with the places where each word of the schema is said, looked up once per word."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.lower = frozenset(token.lower for token in tokens)
        self._said: dict[str, dict[int, float]] = {}

    def said(self, named: str) -> dict[int, float]:
        """Return the tokens that say a stem of the schema, and how alike they are."""
        if named not in self._said:
            alike = (
                (index, likeness(token.stem, named)) for index, token in enumerate(self.tokens) if token.stem
            )
            self._said[named] = {index: degree for index, degree in alike if degree > 0}
        return self._said[named]

    def chains(self, stems: Sequence[str], owner: Sequence[str] = ()) -> Iterator[list[int]]:
        """Yield the runs of tokens that are words of a name or of its table, with nothing but glue between them.

        Args:
            stems: the name's own words; a run has one of them at least.
            owner: the words of its table.
        """
        own = {index for named in stems for index in self.said(named)}
        if not own:
            return
        every = own | {index for named in owner for index in self.said(named)}
        chain: list[int] = []
        for index in sorted(every):
            token = self.tokens[index]
            if token.lower in STOP and not self._belongs(index, stems):
                continue
            if chain and not self._glued(chain[-1], index):
                if own & set(chain):
                    yield chain
                chain = []
            chain.append(index)
        if own & set(chain):
            yield chain

    def coverage(self, span: Sequence[int], stems: Sequence[str]) -> tuple[float, int]:
        """Return how much of the words a span covers, each word once, and by how many tokens."""
        open_words = list(stems)
        total, words = 0.0, 0
        for index in span:
            best, place = 0.0, -1
            for number, named in enumerate(open_words):
                degree = self.said(named).get(index, 0.0)
                if degree > best:
                    best, place = degree, number
            if place >= 0:
                total += best
                words += 1
                del open_words[place]
        return total, words

    def _glued(self, left: int, right: int) -> bool:
        """Whether up to two words of glue, and nothing else, stand between two tokens."""
        return right - left <= 3 and all(token.lower in GLUE for token in self.tokens[left + 1 : right])

    def _belongs(self, index: int, stems: Sequence[str]) -> bool:
        """Whether a stop word is part of a name, as "list" in "list price": the next word follows it there too."""
        word = self.tokens[index].stem
        if index + 1 >= len(self.tokens) or word not in stems[:-1]:
            return False
        return self.tokens[index + 1].stem == stems[stems.index(word) + 1]


def column_mentions(tokens: Sequence[Token], schema: PromptSchema) -> tuple[ColumnMention, ...]:
    """Return the column mentions of a question by position: none overlaps another, the longest and best win."""
    words = _Words(tokens)
    by_span: dict[tuple[int, int], list[_Hit]] = defaultdict(list)
    for table in schema.tables:
        for column in table.columns:
            for hit in _hits(words, column, table):
                by_span[hit.start, hit.end].append(hit)
    ranked = sorted(by_span.items(), key=lambda item: (-max(h.words + h.score for h in item[1]), item[0]))
    taken: set[int] = set()
    found = []
    for (start, end), claims in ranked:
        if taken & set(range(start, end)):
            continue
        best = max(claim.score for claim in claims)
        most = max(claim.words for claim in claims if claim.score == best)
        columns = [c.name for c in claims if c.score >= best - _TIE and c.words >= most - 1]
        taken.update(range(start, end))
        found.append(ColumnMention(start, end, tuple(dict.fromkeys(columns)), best))
    return tuple(sorted(found, key=lambda mention: mention.start))


def table_mentions(tokens: Sequence[Token], schema: PromptSchema) -> tuple[TableMention, ...]:
    """Return the table mentions of a question, which may overlap column mentions but not each other."""
    words = _Words(tokens)
    claims: list[tuple[float, int, int, str]] = []
    for table in schema.tables:
        stems = [s for s in table.stems if s not in _FILLER] or list(table.stems)
        for chain in words.chains(stems):
            for start, end in _subspans(chain):
                matched, count = words.coverage(chain[start:end], stems)
                share = matched / len(stems)
                last = chain[end - 1] in words.said(stems[-1])
                if share >= 0.6 or (share >= 0.3 and last):
                    claims.append((share + 0.2 * count, chain[start], chain[end - 1] + 1, table.name))
    claims.sort(key=lambda claim: (-claim[0], claim[1]))
    found: list[TableMention] = []
    for score, start, end, _ in claims:
        if any(start < other.end and other.start < end for other in found):
            continue
        tied = [c[3] for c in claims if (c[1], c[2]) == (start, end) and c[0] >= score - 0.01]
        found.append(TableMention(start, end, tuple(dict.fromkeys(tied)), score))
    return tuple(sorted(found, key=lambda mention: mention.start))


def _hits(words: _Words, column: SchemaColumn, table: SchemaTable) -> Iterator[_Hit]:
    """Yield a column's claims."""
    stems = [s for s in column.stems if s not in _FILLER] or list(column.stems)
    stems = [s for s in stems if s not in _UNITS or 1.0 in words.said(s).values()] or stems
    if not stems:
        return
    short = [s for s in stems if s not in table.stems] or stems
    whole = column.name.column.lower()
    if len(stems) > 1 and whole in words.lower:
        stems = short = [stem(whole)]
    for chain in words.chains(stems, table.stems):
        for start, end in _subspans(chain):
            hit = _claim(words, chain[start:end], stems, short, column, table)
            if hit is not None:
                yield hit


def _claim(
    words: _Words,
    span: Sequence[int],
    stems: Sequence[str],
    short: Sequence[str],
    column: SchemaColumn,
    table: SchemaTable,
) -> _Hit | None:
    """Return a column's claim on a span, None where too little of its name is said.

    Args:
        words: the question.
        span: tokens that are words of the name or of its table.
        stems: the words of the name.
        short: those that the table's name does not have.
        column: the column.
        table: its table.
    """
    matched, count = words.coverage(span, stems)
    own, own_count = words.coverage(span, short)
    if count == 0 or (own_count == 0 and matched < len(stems)):
        return None
    covered = max(matched / len(stems), own / len(short) * 0.98 if own_count else 0.0)
    said = {index for named in stems for index in words.said(named)}
    extra = len(span) - count
    if extra and words.coverage([index for index in span if index not in said], table.stems)[1] < extra:
        return None
    rest = [named for named in short if not any(index in words.said(named) for index in span)]
    if rest == ["address"] and stems[0] == "email":
        rest, covered = [], 0.95
    head = span[-1] in words.said(stems[-1])
    if covered < 0.3 or (covered < 0.6 and not head and not all(named in _GENERIC for named in rest)):
        return None
    return _Hit(span[0], span[-1] + 1, column.name, min(covered, 1.0) + 0.1 * min(extra, 2), len(span))


def _subspans(chain: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every part of a chain of up to five words."""
    for start in range(len(chain)):
        for end in range(start + 1, min(len(chain), start + 5) + 1):
            yield start, end
