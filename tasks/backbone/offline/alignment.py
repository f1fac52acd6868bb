"""Two questions side by side: what they share, what stands in whose place, and which values they hold."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sqlglot import exp

from tasks.backbone.offline.english.lexicon import STOP
from tasks.backbone.offline.english.words import Token, stem, stems, tokenize
from tasks.backbone.offline.question.values import Value

_SLOT = "<v>"
_LIGHT = frozenset(map(stem, STOP)) | frozenset(stems("whose record name shown on so far ever"))
_COMPARISONS = {
    ">=": re.compile(r"(?:at least|no (?:less|fewer) than|not less than|from)(?= <)"),
    "<=": re.compile(r"(?:at most|no more than|not more than|up to)(?= <)"),
    ">": re.compile(
        r"(?:(?:more|greater|higher|larger|longer|older|later|taller|heavier|better) than|above|over|after) "
    ),
    "<": re.compile(
        r"(?:(?:less|fewer|lower|smaller|shorter|younger|earlier|lighter|cheaper) than|below|under|before) "
    ),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """A word of a question, a comparison, or a value.

    Attributes:
        key: what is compared: a stem, `<v>`, or an operator.
        start: index of its first token.
        value: the value, None for a word.
    """

    key: str
    start: int
    value: Value | None = None

    @property
    def weight(self) -> float:
        """How much it counts for likeness."""
        return 0.5 if self.key == _SLOT else 0.3 if self.key in _LIGHT else 1.0

    @property
    def is_operator(self) -> bool:
        """Whether it is a comparison."""
        return self.key in _COMPARISONS


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of units of the one question and what the other has in its place."""

    equal: bool
    shown: tuple[Unit, ...]
    asked: tuple[Unit, ...]


def align(shown: Sequence[Unit], asked: Sequence[Unit]) -> list[Run]:
    """Align a demonstration's question with the one that is asked: equal and different stretches in order."""
    matcher = SequenceMatcher(None, [u.key for u in shown], [u.key for u in asked], autojunk=False)
    opcodes = matcher.get_opcodes()
    return [Run(tag == "equal", tuple(shown[a:b]), tuple(asked[c:d])) for tag, a, b, c, d in opcodes]


def likeness(runs: Sequence[Run], explained: Collection[Unit]) -> float:
    """Return how alike two questions are, in 0..1; words that differ and are not explained weigh double."""
    total = same = 0.0
    strange = 0
    for run in runs:
        units = (*run.shown, *run.asked)
        total += sum(unit.weight for unit in units)
        same += sum(unit.weight for unit in units if run.equal or unit in explained)
        left = [
            [u for u in side if u.weight == 1.0 and u not in explained] for side in (run.shown, run.asked)
        ]
        strange += 0 if run.equal else max(map(len, left))
    return float(same / total * 0.8**strange) if total else 0.0


def units_of_example(question: str, literals: Sequence[exp.Literal]) -> list[Unit]:
    """Return the units of a demonstration's question: what its query holds as literals are values."""
    words = tokenize(question)
    said = [token.text.lower() if token.kind in ("number", "quoted") else token.lower for token in words]
    values: dict[int, Value] = {}
    for literal in literals:
        wanted = [t.lower for t in tokenize(re.sub(r"^%|[-/]?%$", "", literal.name)) if t.kind != "mark"]
        for start in range(len(words) - len(wanted) + 1):
            end = start + len(wanted)
            if wanted and start not in values and said[start:end] == wanted:
                text = " ".join(token.text for token in words[start:end])
                values[start] = Value(start, end, text, is_number=not literal.is_string or text.isdigit())
                break
    return units_of(words, values)


def units_of(tokens: Sequence[Token], values: Mapping[int, Value]) -> list[Unit]:
    """Return the units of a question, marks left out; values are given by their first tokens."""
    units = []
    index = 0
    while index < len(tokens):
        length = 1
        if value := values.get(index):
            units.append(Unit(_SLOT, index, value))
            length = value.end - value.start
        elif tokens[index].kind != "mark":
            operator, length = _comparison(tokens[index : index + 4])
            units.append(Unit(operator or tokens[index].stem or tokens[index].lower, index))
        index += length
    return units


def _comparison(tokens: Sequence[Token]) -> tuple[str, int]:
    """Return the operator that a comparison at the first token stands for and its length, ("", 1) for none."""
    plain = " ".join("<n>" if token.kind == "number" else token.lower for token in tokens)
    found = ((operator, pattern.match(plain)) for operator, pattern in _COMPARISONS.items())
    return next(((operator, len(match[0].split())) for operator, match in found if match), ("", 1))
