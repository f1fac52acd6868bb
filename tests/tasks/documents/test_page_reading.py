"""Pages can be read by everybody: contrast as WCAG 2.2 asks of text, headings, landmarks, headers of tables."""

import re

import pytest

from tasks.documents.html import TEMPLATES, html
from tests.tasks.documents.test_documents import a_document

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


TEMPLATE_TEXT = "\n".join(path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.html.jinja")))


def test_a_page_has_a_language_a_title_one_first_heading_and_landmarks() -> None:
    page = html(a_document("text"))
    assert '<html lang="en">' in page and "<title>text</title>" in page
    for element in ("h1", "header", "main", "footer"):
        assert len(re.findall(rf"<{element}\b", page)) == 1, element


@pytest.mark.parametrize("page", [html(a_document("text")), TEMPLATE_TEXT], ids=["a page", "the templates"])
def test_tables_scroll_inside_themselves_and_their_headers_are_named(page: str) -> None:
    assert not re.findall(r"<th(?![^>]*scope)[ >]", page), "a header without a scope"
    assert not re.findall(r"<th[^>]*></th>", page), "a header without a name"
    before = [page[max(0, found.start() - 200) : found.start()] for found in re.finditer("<table", page)]
    assert before and all('class="scroll' in part for part in before)
    for region in re.findall(r'<div class="scroll[^"]*"[^>]*>', page):
        assert 'tabindex="0" role="group" aria-label="' in region, "it is scrolled with the keyboard"
