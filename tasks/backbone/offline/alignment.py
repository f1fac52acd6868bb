"""Two questions side by side: what they share, what stands in whose place, and which values they hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tasks.backbone.offline.lexicon import STOP
from tasks.backbone.offline.sql_tokens import SqlToken
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.values import Value
from tasks.backbone.offline.words import Token, stem, tokenize

SLOT = "<v>"
_LIGHT = frozenset(stem(word) for word in STOP) | {
    "whos",
    "record",
    "name",
    "shown",
    "on",
    "so",
    "far",
    "ever",
    "e",
}
_COMPARISONS = (
    (re.compile(r"(?:at least|no (?:less|fewer) than|not less than|from) <"), ">=", 2),
    (re.compile(r"(?:at most|no more than|not more than|up to) <"), "<=", 2),
    (
        re.compile(
            r"(?:(?:more|greater|higher|larger|longer|older|later|taller|heavier|better|dearer) than|above|over|after) "
        ),
        ">",
        2,
    ),
    (
        re.compile(
            r"(?:(?:less|fewer|lower|smaller|shorter|younger|earlier|lighter|cheaper) than|below|under|before) "
        ),
        "<",
        2,
    ),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A word of a question, a comparison, or a value.

    Attributes:
        key: what is compared: a stem, `<v>`, or an operator.
        start: index of its first token.
        end: index after its last.
        value: the value's text, "" for a word.
        is_number: whether the value is a number.
    """

    key: str
    start: int
    end: int
    value: str = ""
    is_number: bool = False

    @property
    def weight(self) -> float:
        """How much it counts for likeness."""
        return 0.5 if self.key == SLOT else 0.3 if self.key in _LIGHT else 1.0

    @property
    def is_operator(self) -> bool:
        """Whether it is a comparison."""
        return self.key[:1] in "<>" and self.key != SLOT


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of units of the one question and what the other has in its place."""

    equal: bool
    shown: tuple[Unit, ...]
    asked: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Two questions aligned.

    Attributes:
        runs: equal and different stretches in order.
        shown: units of the demonstration's question.
        asked: units of the question that is asked.
    """

    runs: tuple[Run, ...]
    shown: tuple[Unit, ...]
    asked: tuple[Unit, ...]

    def likeness(self, explained: frozenset[Unit]) -> float:
        """Return how alike the questions are, in 0..1; words that differ and are not explained weigh double."""
        total = sum(unit.weight for unit in (*self.shown, *self.asked))
        same = sum(unit.weight for run in self.runs if run.equal for unit in (*run.shown, *run.asked))
        made_up = sum(
            unit.weight
            for run in self.runs
            if not run.equal
            for unit in (*run.shown, *run.asked)
            if unit in explained
        )
        strange = [
            max(
                sum(unit.weight == 1.0 for unit in side if unit not in explained)
                for side in (run.shown, run.asked)
            )
            for run in self.runs
            if not run.equal
        ]
        return float(min((same + made_up) / total, 1.0) * 0.8 ** sum(strange)) if total else 0.0


def align(question: str, sql: Sequence[SqlToken], text: QuestionText, values: Sequence[Value]) -> Alignment:
    """Align a demonstration's question with the one that is asked.

    Args:
        question: the demonstration's.
        sql: its query.
        text: the question that is asked.
        values: the values of that question.
    """
    shown = units_of_example(question, sql)
    asked = _units(text.tokens, {value.start: value for value in values})
    matcher = SequenceMatcher(None, [u.key for u in shown], [u.key for u in asked], autojunk=False)
    runs = tuple(
        Run(tag == "equal", tuple(shown[a:b]), tuple(asked[c:d])) for tag, a, b, c, d in matcher.get_opcodes()
    )
    return Alignment(runs, tuple(shown), tuple(asked))


def units_of_example(question: str, sql: Sequence[SqlToken]) -> list[Unit]:
    """Return the units of a demonstration's question: what its query holds as literals are values."""
    words = tokenize(question)
    values: dict[int, Value] = {}
    for token in sql:
        if token.kind not in ("value", "number"):
            continue
        wanted = [t.lower for t in tokenize(re.sub(r"^%|[-/]?%$", "", token.plain)) if t.kind != "mark"]
        for start in range(len(words) - len(wanted) + 1):
            span = words[start : start + len(wanted)]
            texts = [one.text.lower() if one.kind == "number" else one.lower for one in span]
            whole = (
                len(span) == 1
                and span[0].kind == "quoted"
                and span[0].lower == token.plain.strip("%").lower()
            )
            if wanted and (texts == wanted or whole) and start not in values:
                said = " ".join(one.text for one in span)
                number = token.kind == "number" or said.isdigit()
                values[start] = Value(start, start + len(wanted), said, is_number=number)
                break
    return _units(words, values)


def _units(tokens: Sequence[Token], values: dict[int, Value]) -> list[Unit]:
    """Return the units of a question, marks left out."""
    units = []
    index = 0
    while index < len(tokens):
        value = values.get(index)
        if value is not None:
            units.append(Unit(SLOT, value.start, value.end, value.text, value.is_number))
            index = value.end
            continue
        if tokens[index].kind != "mark":
            operator, length = _comparison(tokens, index)
            key = operator or tokens[index].stem or tokens[index].lower
            units.append(Unit(key, index, index + length))
            index += length
        else:
            index += 1
    return units


def _comparison(tokens: Sequence[Token], index: int) -> tuple[str, int]:
    """Return the operator that a comparison at a token stands for and its length, ("", 1) for none."""
    window = tokens[index : index + 4]
    plain = " ".join("<n>" if token.kind == "number" else token.lower for token in window)
    for pattern, operator, _ in _COMPARISONS:
        match = pattern.match(plain)
        if match:
            return operator, max(len(match[0].replace("<", " ").split()), 1)
    return "", 1
