"""Colours of the pages: every text has the contrast that WCAG 2.2 asks of text, on paper, on screens light and dark."""

import re

import pytest

from tasks.tracking.pages.template import TEMPLATES

LEAST = 4.5
TEXTS = ("ink", "quiet", "a", "b", "good", "doubt")
GROUNDS = ("paper", "card", "wash")
PAIRS = (
    *((text, ground) for text in TEXTS for ground in GROUNDS),
    *(
        ("a", "a-soft"),
        ("b", "b-soft"),
        ("doubt", "doubt-soft"),
        ("card", "b"),
        ("quiet", "noise"),
        ("ink", "noise"),
    ),
    *(("ink", "mark"), ("b", "mark")),
)


def schemes() -> list[dict[str, str]]:
    """Return the colours of the light, the dark and the printed page."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    blocks = [
        dict(re.findall(r"--([\w-]+): (#\w+);", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    return [blocks[0] | block for block in blocks]


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    shares = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", range(3), ids=["light", "dark", "print"])
def test_every_text_can_be_read(scheme: int) -> None:
    colours = schemes()[scheme]
    poor = {
        f"{text} on {ground}": round(found, 2)
        for text, ground in PAIRS
        if (found := contrast(colours[text], colours[ground])) < LEAST
    }
    assert not poor
