"""Numbers and lists as a person reads them: one way to write each, on terminals, in Markdown and on pages."""

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

DASH = "\N{EN DASH}"
"""Stands for what does not apply or was not measured."""
MINUS = "\N{MINUS SIGN}"
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
UNKNOWN = "unknown"
"""Text for an unknown value; never 0."""
ROUNDING = 1e-9
"""Error of sums of fractions: what is smaller counts as 0."""

TIME_OF_DAY = re.compile(r"([\d:]{5,8})(?: (\S+))?")
"""A time of day, 07:00, and its time zone if it names one."""
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


class Share(Protocol):
    """A share with its numerator and denominator, such as `tasks.scoring.scores.Score`."""

    @property
    def correct(self) -> float:
        """The numerator."""

    @property
    def total(self) -> float:
        """The denominator."""


def percent(share: Share | None, decimals: int = 2) -> str:
    """Write a share in percent; a dash where there is none. A share that rounding makes 0 or 100 % has `<` or `>`."""
    if not share or not share.total:
        return DASH
    value, least = 100 * share.correct / share.total, 10**-decimals
    text = f"{value:.{decimals}f}"
    if float(text) == 0 and value > ROUNDING:
        return f"<{least} %"
    return f">{100 - least} %" if float(text) == 100 and value < 100 - ROUNDING else f"{text} %"


def amount(value: float) -> str:
    """Write a number with all digits of its whole part; of its decimals, those within the first six digits.

    >>> amount(1_234_567), amount(1_234_567.5), amount(6436.125), amount(0.5)
    ('1,234,567', '1,234,568', '6,436.12', '0.5')
    """
    return f"{value:,.0f}" if value % 1 == 0 or abs(value) >= 1e6 else f"{value:,g}"


def counts(share: Share | None) -> str:
    """Write numerator and denominator, `1,030 of 1,534`; "" where there is no share."""
    return "" if share is None else f"{amount(share.correct)} of {amount(share.total)}"


def percent_and_counts(share: Share) -> str:
    """Write a share as `80.62 % (104/129)`; "none to score" of nothing."""
    if not share.total:
        return "none to score"
    return f"{percent(share)} ({amount(share.correct)}/{amount(share.total)})"


def interval(low: float, high: float) -> str:
    """Write an interval of shares in percent.

    >>> interval(0.25, 0.5)
    '25.0 to 50.0 %'
    """
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def points(share: float | None) -> str:
    """Write a difference of shares in percentage points, signed; a dash where there is none.

    >>> points(0.0125), points(-0.5), points(0.0)
    ('+1.25', '−50.00', '0.00')
    """
    return DASH if share is None else signed(100 * share, ".2f")


def signed(value: float, form: str = "d") -> str:
    """Write a number with its sign, zero without one.

    >>> signed(3), signed(-3), signed(0), signed(-0.001, ".2f")
    ('+3', '−3', '0', '0.00')
    """
    text = format(value, f"+{form}")
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def p_value(p: float | None) -> str:
    """Write a p-value with two digits, or as many as tell it from a round number, such as a level; a dash for None.

    >>> p_value(0.0412), p_value(1.0), p_value(3.2e-9), p_value(0.04998), p_value(0.05)
    ('0.041', '1', '3.2e-09', '0.04998', '0.05')
    """
    if p is None:
        return DASH
    digits = 2
    while digits < 6 and float(f"{p:.{digits}g}") == float(f"{p:.1g}") != p:
        digits += 1
    return f"{p:.{digits}g}"


def number(value: int | None, *, missing: str = UNKNOWN) -> str:
    """Write a count; "unknown" where it is not known.

    >>> number(1200), number(None), number(None, missing=DASH)
    ('1,200', 'unknown', '–')
    """
    return missing if value is None else f"{value:,}"


def rounded(value: float, digits: int = 2) -> str:
    """Write a number with so many significant digits, a large one without an exponent.

    >>> rounded(1234.5), rounded(0.0123), rounded(1234567.8, 6)
    ('1,200', '0.012', '1,234,570')
    """
    return f"{float(f'{value:.{digits}g}'):,.15g}"


_PLURAL_VERBS = {"is": "are", "was": "were", "has": "have", "does": "do"}


def counted(value: float, noun: str, verb: str = "") -> str:
    """Write how many there are of something, with a noun of regular plural, and a verb that agrees with it.

    >>> counted(1, "question"), counted(1200, "reply"), counted(2, "batch", "is")
    ('1 question', '1,200 replies', '2 batches are')
    """
    return f"{value:,} {noun if value == 1 else _plural(noun)} {agreeing(verb, value)}".rstrip()


def agreeing(verb: str, value: float) -> str:
    """Return a verb, written in the singular, in the form that agrees with a number.

    >>> agreeing("has", 1), agreeing("has", 2), agreeing("counts", 0)
    ('has', 'have', 'count')
    """
    return verb if value == 1 else _PLURAL_VERBS.get(verb, verb.removesuffix("s"))


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def money(usd: float | None) -> str:
    """Write US dollars; "unknown" where a paid call has no price. An amount that rounding makes 0 has `<`.

    >>> money(1234.5), money(-0.5), money(0.000003), money(-1e-18), money(None)
    ('$1,234.5000', '-$0.5000', '<$0.0001', '$0.0000', 'unknown')
    """
    if usd is not None and ROUNDING < usd < 0.00005:
        return "<$0.0001"
    return UNKNOWN if usd is None else f"{'-' if usd <= -0.00005 else ''}${abs(usd):,.4f}"


def seconds(value: float | None) -> str:
    """Write a short time; a dash where there is none."""
    return DASH if value is None else f"{value:,.2f} s"


def size(value: float) -> str:
    """Write a number of bytes.

    >>> size(21_300_000_000), size(1_500), size(12)
    ('21.3 GB', '1.5 KB', '12 B')
    """
    return next((f"{value / unit:,.1f} {name}" for unit, name in _BYTES if value >= unit), f"{value:.0f} B")


def duration(value: float | None) -> str:
    """Write how many seconds something took, in the two largest units; a dash where that is not known.

    >>> duration(12.4), duration(200), duration(9000), duration(None)
    ('12 s', '3 min 20 s', '2 h 30 min', '–')
    """
    if value is None:
        return DASH
    whole = round(value)
    for unit_s, unit, smaller_s, smaller_unit in ((3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // smaller_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{whole} s"


def total_time(value: float) -> str:
    """Write how many seconds a command took in all.

    >>> total_time(2.44), total_time(59.97), total_time(1287.2)
    ('2.4 s total', '1 min total', '21 min 27 s total')
    """
    return f"{f'{value:.1f} s' if round(value, 1) < 60 else duration(value)} total"


def end_of(name: object) -> str:
    """Return the last 60 characters of a name, which may be the path of a file: for a line of progress."""
    text = str(name)
    return text if len(text) <= 60 else f"…{text[-59:]}"


def shorten(names: Sequence[str], most: int) -> str:
    """List the first names and the number of the others.

    >>> shorten(["a", "b", "c"], 2), shorten(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    return ", ".join(names[:most]) + (f" {rest}" if (rest := and_more(names, most)) else "")


def and_more(items: Sequence[object], most: int, *, noun: str = "") -> str:
    """Write how many items are left out after the first ones; "" where none is.

    >>> and_more(range(1203), 3), and_more("ab", 1, noun="stage")
    ('and 1,200 more', 'and 1 more stage')
    """
    left = len(items) - most
    if left <= 0:
        return ""
    return f"and {counted(left, f'more {noun}') if noun else f'{left:,} more'}"


def sentence(text: str) -> str:
    """End a text with a full stop, unless it ends with a question mark or an exclamation mark.

    >>> sentence("there is no such key"), sentence('Did you mean "limit"?')
    ('there is no such key.', 'Did you mean "limit"?')
    """
    return text if text.endswith(("?", "!")) else f"{text.rstrip('.')}."


HIDDEN = "***"
MIN_SECRET = 8
"""Characters of the shortest secret: a shorter key is a placeholder ("ollama"), which other texts contain by chance."""


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets.

    >>> hide("no model m for the key 9a1c0d5e7b4a", ["9a1c0d5e7b4a", "m"])
    'no model m for the key ***'
    """
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    return text


def storable(text: str) -> str:
    """Return text that every store, page and protocol can hold: UTF-8 without NUL.

    JSON can spell NUL and halves of surrogate pairs; each becomes U+FFFD, the replacement character.

    >>> storable("a" + chr(0) + "b" + chr(0xD800))
    'a\ufffdb\ufffd'
    """
    return _NO_TEXT.sub("\ufffd", text)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data as JSON has it with every text changed, keys included.

    >>> map_texts({"names": ["a", 1]}, str.upper)
    {'NAMES': ['A', 1]}
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
    return value


def next_time(text: str, now: datetime.datetime) -> datetime.datetime:
    """Return the time that a text names: an ISO 8601 time, or the next time of day.

    A time of day may name its time zone, else it is in that of `now`. ValueError if the text names neither.

    >>> night = datetime.datetime(2026, 11, 24, 22, 30, tzinfo=datetime.UTC)
    >>> next_time("07:00", night).isoformat()
    '2026-11-25T07:00:00+00:00'
    >>> next_time("23:00", night).isoformat()
    '2026-11-24T23:00:00+00:00'
    >>> next_time("2026-11-26T05:00:00+01:00", night).isoformat()
    '2026-11-26T05:00:00+01:00'
    >>> next_time("07:00 Europe/Berlin", night).isoformat()
    '2026-11-25T07:00:00+01:00'
    """
    from zoneinfo import ZoneInfo  # only here: it would slow every start

    if time_of_day := TIME_OF_DAY.fullmatch(text):
        time = datetime.time.fromisoformat(time_of_day[1])
        try:
            zone = ZoneInfo(time_of_day[2]) if time_of_day[2] else now.tzinfo
        except (KeyError, OSError) as error:  # no such name; that of a folder of time zones
            raise ValueError(text) from error
        moment = datetime.datetime.combine(now.astimezone(zone).date(), time, zone)
        return moment if moment > now else moment + datetime.timedelta(days=1)
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
