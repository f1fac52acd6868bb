"""Pages taken apart, and runs whose every text is hostile."""

from dataclasses import replace
from html.parser import HTMLParser

from tasks.results.run_record import RunRecord
from tests.tasks.results.comparison_samples import two_runs, with_row

VOID = {"meta", "input", "link", "img", "br", "hr"}
EVIL = "</code></pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)>{{ 7*7 }}"


class Page(HTMLParser):
    """A page in parts; fails on tags that are not nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.flips: list[dict[str, str]] = []
        self.texts: dict[str, str] = {}
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += given.items()
        if tag not in VOID:
            self.open.append(tag)
        if tag == "li" and "flip" in given.get("class", "").split():
            self.flips.append(given)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[self.open[-1] if self.open else ""] = data
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def hostile_runs(fixed: int = 3, broken: int = 2) -> list[RunRecord]:
    """Two runs of 12 questions, of which the first four are hostile in every text."""
    a, b = two_runs(fixed, broken, 12)
    runs = []
    for run in (a, b):
        for place in range(4):
            row = run.rows[place]
            run = with_row(
                run,
                place,
                question=replace(row.question, text=EVIL, evidence=EVIL, database_id=EVIL, difficulty=EVIL),
                outcome=replace(row.outcome, sql=f"SELECT '{EVIL}' \x1b[31m \u202e"),
                final=replace(row.final, error=EVIL),
                gold_sql=EVIL,
            )
        changes = {"backbone": EVIL, "pipeline": EVIL, "benchmark": EVIL, "revision": EVIL}
        runs.append(run.model_copy(update=changes))
    return runs
