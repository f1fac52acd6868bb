"""The findings about an endpoint as a document."""

from flows.check.run import Checked
from tasks.backbone.check.report import Finding
from tasks.core.wording import DASH, counted, money
from tasks.documents.model import Block, Column, Document, Sentence, Span, Table, Tone

TONES: dict[str, Tone] = {"yes": "good", "no": "bad", "unknown": "doubt"}


def document_of(checked: Checked) -> Document:
    """Return the table of findings, the speed, and what the requests cost."""
    report = checked.report
    speed = (
        ("first byte", DASH if report.first_byte_s is None else f"{report.first_byte_s:.2f} s"),
        ("output", DASH if report.tokens_per_s is None else f"{report.tokens_per_s:g} tokens a second"),
    )
    tokens = f"{report.input_tokens:,} input tokens, {report.output_tokens:,} output tokens"
    if report.unreported:
        tokens += f" ({counted(report.unreported, 'request')} without a report of them)"
    cost = "cost unknown" if report.cost_usd is None else money(report.cost_usd)
    columns = (Column("probe", "text"), Column("result", "text"), Column("detail", "text"))
    blocks: list[Block] = [
        Table("", columns, tuple(map(_row, report.findings)), keep=3),
        *(Sentence(f"{name}: {value}", "note") for name, value in speed if report.usable),
        Sentence(
            f"{counted(report.requests, 'request')}, {tokens}, {cost}; without the questions of the demo",
            "note",
        ),
    ]
    if not report.usable:
        blocks.append(Sentence("The endpoint cannot be used as it is.", "error"))
    return Document(f"{report.url} · {report.model or 'no model'}", tuple(blocks))


def _row(finding: Finding) -> tuple[str, Span, str]:
    return finding.name, Span(finding.verdict, TONES[finding.verdict]), finding.detail
