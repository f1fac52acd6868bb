"""One document on a terminal, in Markdown and on a page: the same facts, no text acts, and everybody can read it."""

import io
import re

import pytest

from tasks.documents.html import TEMPLATES, html
from tasks.documents.markdown import markdown
from tasks.documents.model import (
    AnswerBlock,
    Block,
    Bullets,
    Card,
    Cards,
    Code,
    Column,
    Columns,
    Document,
    Facts,
    Figure,
    Intervals,
    Legend,
    Line,
    LinePoint,
    Lines,
    Only,
    Parts,
    Point,
    Points,
    QuestionItem,
    Questions,
    Section,
    Sentence,
    Span,
    Sparkline,
    Table,
    TwoSided,
)
from tasks.documents.terminal import print_document
from tasks.documents.text import folded
from tests.tasks.results.page_parts import EVIL, Page

POINT = Point(50, 40, 60, "a", "A")
LINE = Line(
    (LinePoint(0, 50, 40, 60, "past"), LinePoint(1, 55, 45, 65, "now", "tip", "1", emphasised=True)), "trend"
)


def blocks(text: str) -> tuple[Block, ...]:
    """One block of each kind, with a text in every place for one."""
    columns = (
        Column("rank"),
        Column(text, "text", help=text),
        Column("under", "text", under=True),
        Column("EX", brief=True),
        Column("plot", "plot", axis=(0, 100)),
        Column("two", "plot"),
    )
    cells = (Points((POINT, POINT), text), TwoSided(2, 3, 5, text))
    asked = QuestionItem(
        text,
        Span(text, "bad", "badge"),
        text,
        text,
        text,
        (
            AnswerBlock((Span("A", "bad", "letter"), text), text, "SELECT 1", {text: True, "last": False}),
            AnswerBlock(text, None, fold=True, blocks=(Sentence(text),)),
        ),
        {"database": text},
    )
    return (
        Sentence((text, Span(text, "code"), Span(text, "strong")), "warning"),
        Sentence(text, "message"),
        Section(text, (Bullets((text,), "warning"),), notes=True),
        Facts(((text, text),)),
        Code(text),
        Code(text, "sql", "SELECT 1"),
        Table(text, columns, (("1", text, text, "50 %", *cells), None, ("", "all", "", "", "", "")), text, wide=True),
        Table("Small", ("", Column("A", "plot")), (("x", Sparkline((1, 2, 3), "now", text)),)),
        Columns((
            Figure(text, Intervals((POINT,), text, (text, text), 0.5)),
            Figure(text, Parts(((text, 1, "a"), ("", 0, "")), text), True, Legend((("a", text), ("", text)))),
            Figure(text, Lines((LINE,), text, ((0, text),), level=LINE.points[0])),
        )),
        Cards((Card(text, (Sentence(text),)),)),
        Section((text, Span(text, "doubt", "badge")), (Sentence(text), Columns((Facts(()),))), id="part"),
        Only(("terminal",), (Sentence("not on a page"),)),
        Section(text, (Only(("page",), (Sentence("on a page"),)),), fold="open"),
        Questions((asked, asked), {"database": "Database"}, 1, text, text),
    )  # fmt: skip


def a_document(text: str) -> Document:
    return Document(text, blocks(text), text, text, "bad", (Sentence(text),), text)


def on_a_terminal(document: Document) -> str:
    stream = io.StringIO()
    print_document(document, stream)
    return stream.getvalue()


def test_every_block_has_a_form_in_every_medium() -> None:
    document = a_document("some text")
    page = Page(html(document))
    for told in (on_a_terminal(document), markdown(document), page.text):
        assert "some text" in told and "50 %" in told and "all" in told
    assert "not on a page" in on_a_terminal(document) and "not on a page" not in page.text
    assert "on a page" in page.text and "on a page" not in markdown(document)
    assert page.tags.count("svg") >= 6 and page.tags.count("table") == 3
    assert len(page.flips) == 2 and page.flips[0]["data-database"] == "some text"
    assert "the first 1 of 2" in on_a_terminal(document)


def test_hostile_text_stays_text() -> None:
    evil = EVIL + "\x1b[31m\u202e"
    page, plain_page = Page(html(a_document(evil))), Page(html(a_document("plain")))
    assert set(page.tags) <= {*plain_page.tags, "mark"}
    assert {name for name, _ in page.attributes} == {name for name, _ in plain_page.attributes}
    assert page.tags.count("script") == plain_page.tags.count("script") == 1
    for told in (on_a_terminal(a_document(evil)), markdown(a_document(evil)), html(a_document(evil))):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", told)
    outside_code = re.sub(r"(`+)(?:.|\n)*?\1", "", markdown(a_document(evil)))
    assert "<script" not in outside_code.replace("\\<", "")


@pytest.mark.parametrize(("text", "written"), [
    ("a_b | c", r"a\_b \| c"),
    (("x ", Span("strong", "strong"), " y"), "x **strong** y"),
    (Span("a`b", "code"), "``a`b``"),
    (Span("", "strong"), ""),
])  # fmt: skip
def test_a_text_in_markdown(text: str | Span | tuple[str | Span, ...], written: str) -> None:
    assert markdown(Document("", (Sentence(text),))) == f"{written}\n"


def test_a_column_under_another_is_its_own_on_a_terminal_and_small_on_a_page() -> None:
    table = Table("", ("", Column("EX"), Column("right", under=True)), (("bird", "50.00 %", "1 of 2"),))
    document = Document("", (table,))
    assert on_a_terminal(document).split("\n")[0].split() == ["EX", "right"]
    assert "50.00 %<small>1 of 2</small>" in html(document)
    assert "| bird | 50.00 % | 1 of 2 |" in markdown(document)


def test_equal_rows_are_one_only_beside_each_other_and_between_two_lines() -> None:
    rows = (("a", "1"), (Span("b", "strong"), "1"), ("c", "2"), ("d", "1"), None, ("e", "1"))
    found = folded(Table("", ("", "right"), rows))
    assert found.rows == (("a, b", "1"), ("c", "2"), ("d", "1"), None, ("e", "1"))


def test_every_interval_has_ticks_also_where_a_table_becomes_cards() -> None:
    cells = (("x", Points((POINT,), "x")), ("y", Points((POINT,), "y")))
    headers = ("", Column("EX", "plot", axis=(0, 100)))
    for wide, axes in ((False, 1), (True, 3)):
        page = html(Document("T", (Table("", headers, cells, wide=wide),)))
        labels = re.findall(r'class="stretched axis"[^>]*>(.*?)</svg>', page, re.DOTALL)
        assert [re.findall(">([^<>]+)</text>", each) for each in labels] == axes * [["0", "50", "100 %"]]


def test_a_narrow_screen_folds_the_rows_of_a_table_with_brief_columns() -> None:
    headers = ("name", Column("EX", brief=True), Column("right", under=True), Column("calls"))
    for wide in (True, False):
        table = Table("", headers, (("a", "50 %", "1 of 2", "9"),), wide=wide)
        page = html(Document("T", (table,)))
        assert table.brief == wide
        assert ('<table class="cards brief">' in page) == wide
        assert ('<summary><span class="unseen">more about a</span></summary>' in page) == wide
        assert '<td class="num beside" data-label="EX">50 %<small>1 of 2</small></td>' in page
        assert '<td class="num" data-label="calls">9</td>' in page


def test_successive_stages_that_are_alike_are_one_on_a_page() -> None:
    stages = {"1_a": False, "2_b": True, "3_c": True, "4_d": True, "5_e": False}
    trail = AnswerBlock("A", "SELECT 1", stages=stages).trail
    assert trail == [("1_a", False), ("2_b to 4_d", True), ("5_e", False)]


def test_an_axis_of_differences_has_a_sign_on_both_sides_of_zero() -> None:
    cells = (("x", Points((Point(-5, -20, 10, "now"),), "x")),)
    page = html(Document("T", (Table("", ("", Column("points", "plot", axis=(-25, 25))), cells),)))
    assert re.findall(">([^<>]+)</text>", page) == ["\N{MINUS SIGN}20", "0", "+20"]
    assert page.count('class="zero"') == 1


def test_a_chart_of_lines_has_a_form_for_a_narrow_screen() -> None:
    page = html(Document("T", (Figure("c", Lines((LINE,), "x", ((0, "0"),))),)))
    assert re.findall(r'class="on-(\w+)">\s*<svg viewBox="0 0 (\d+)', page) == [
        ("wide", "440"),
        ("narrow", "350"),
    ]


def test_a_page_without_a_search_has_no_script() -> None:
    page = Page(html(Document("Title", (Sentence("text"),))))
    assert "script" not in page.tags
    policy = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
    assert "script-src" not in policy


class Terminal(io.StringIO):
    """Text that a terminal is sent."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 80, 110, 200])
def test_a_terminal_shows_texts_whole_and_breaks_them_at_blanks(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words = [f"--option-{number}" for number in range(60)]
    sql = f"SELECT {', '.join(f'column_{number}' for number in range(60))} FROM orders"
    for block in (Sentence(" ".join(words)), Sentence(" ".join(words), "note"), Bullets((" ".join(words),))):
        assert set(words) == set(printed(block).split())
    assert printed(Code(sql, "sql")).split() == sql.split()
    for block in (Sentence(" ".join(words), "command"), Code(" ".join(words))):
        assert printed(block).strip().splitlines() == [" ".join(words)], "copied as one line"


def printed(block: Block) -> str:
    """Return what a terminal of the width in COLUMNS is sent, without colours."""
    stream = Terminal()
    print_document(Document("", (block,)), stream)
    return re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue())


LEAST = 4.5
INKS = ("ink", "quiet", "a", "b", "good", "doubt")
GROUNDS = ("paper", "card", "wash")
ON_GROUNDS = (
    *((text, ground) for text in INKS for ground in GROUNDS),
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


@pytest.mark.parametrize("scheme", range(3), ids=["light", "dark", "print"])
def test_every_text_can_be_read(scheme: int) -> None:
    colours = schemes()[scheme]
    poor = {
        f"{text} on {ground}": round(found, 2)
        for text, ground in ON_GROUNDS
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
