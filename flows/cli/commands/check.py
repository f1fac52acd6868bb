"""`crosscheck check`: what a model's endpoint can do, and the settings that follow."""

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from flows.cli import completion, options

if TYPE_CHECKING:
    from tasks.backbone.endpoint.check import EndpointReport
    from tasks.documents.model import Document
    from tasks.settings.backbone import BackboneSettings

TONES: dict[str, Any] = {"yes": "good", "no": "bad", "unknown": "doubt"}


@dataclass(frozen=True, kw_only=True)
class CheckOptions(options.Files):
    """Options of `crosscheck check`."""

    backbone: str | None = options.argument(required=False, shell_complete=completion.names("backbone"))
    url: str | None = options.option(
        "--url", metavar="URL", help="Base URL of an endpoint, instead of BACKBONE: http://127.0.0.1:8000/v1."
    )
    model: str | None = options.option(
        "--model", metavar="NAME", help="With --url: the model. [default: the first that the endpoint lists]"
    )
    api_key_env: str | None = options.option(
        "--api-key-env", metavar="VARIABLE", help="With --url: environment variable with the key."
    )
    parallel: int = options.option(
        "--parallel",
        type=click.IntRange(1, 32),
        metavar="N",
        default=8,
        help="Send at most N requests at once.",
    )
    write: Path | None = options.option(
        "--write",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the settings that follow to FILE, for --backbone FILE. It must not exist yet.",
    )
    overrides: tuple[str, ...] = options.set_option("Change one setting of the model: backbone.*.", last=True)


@click.command(
    "check",
    epilog="\b\nExamples:\n"
    "  crosscheck check --url http://127.0.0.1:8000/v1\n"
    "  crosscheck check --url http://127.0.0.1:8000/v1 --model my/model --write my-model.yaml\n"
    "  crosscheck evaluate --backbone my-model.yaml --limit 20\n"
    "  crosscheck check openai --parallel 4\n"
    "\nBetween 10 and 40 small requests are sent and paid for: the last line says how many tokens they took.\n"
    "\nExit codes: 0 the model answers; 1 it does not; 2 bad input or configuration.",
)
@options.record(CheckOptions)
def command(check_options: CheckOptions) -> int:
    """Find out what a model's endpoint can do, and which settings it needs.

    BACKBONE is a name of `crosscheck list backbones` or a YAML file. Prints what the endpoint accepts, and the settings
    that follow as a backbone file.
    """
    from flows.runtime.output import write_text
    from tasks.core.errors import ExitCode
    from tasks.documents.terminal import print_document

    file = check_options.write
    backbone = _backbone_of(check_options)
    report = asyncio.run(_check(check_options, backbone))
    settings = report.settings(backbone)
    text = _yaml_of(settings, check_options)
    if file is not None and settings:
        write_text(text, file, "--write", "file")

    def show(stream: TextIO) -> None:
        print_document(_document_of(report), stream)
        if settings:
            name = shlex.quote(str(file or "my-model.yaml"))
            written = f"Written to {name}." if file else f"Save it as {name} (or give --write {name})."
            click.echo(f"\n{text}\n{written} Then: crosscheck evaluate --backbone {name} --limit 20", stream)

    check_options.emit(report.model_dump(mode="json") | {"settings": settings}, show)
    return ExitCode.DONE if settings else ExitCode.NEGATIVE


async def _check(check_options: CheckOptions, backbone: "BackboneSettings") -> "EndpointReport":
    from tasks.backbone.endpoint.check import EndpointCheck
    from tasks.backbone.endpoint.client import EndpointBackbone
    from tasks.stages.replies import LinkReply

    client = EndpointBackbone(backbone.model_copy(update={"concurrency": check_options.parallel}))
    with check_options.progress() as progress:
        async with client as endpoint:
            check = EndpointCheck(endpoint, backbone, progress.step)
            return await check.run(LinkReply, check_options.parallel)


def _backbone_of(check_options: CheckOptions) -> "BackboneSettings":
    """Return the settings with which the endpoint is checked."""
    from tasks.backbone.kind import kind_of
    from tasks.core.errors import ConfigurationError
    from tasks.core.files import check_writable
    from tasks.settings.home import find_conf
    from tasks.settings.load import load_backbone_settings

    file = check_options.write
    if (check_options.backbone is None) == (check_options.url is None):
        raise ConfigurationError("Name either a BACKBONE or --url URL.")
    if file is not None:
        if file.exists():
            raise ConfigurationError(f"--write {file}: the file exists. Name another one, or remove it.")
        check_writable(file, "--write")
    if check_options.url is not None:
        return _settings_of_url(check_options)
    if check_options.model or check_options.api_key_env:
        raise ConfigurationError(
            "--model and --api-key-env belong to --url. For a BACKBONE, use --set backbone.model=NAME."
        )
    backbone = load_backbone_settings(find_conf(), str(check_options.backbone), check_options.overrides)
    if not kind_of(backbone).endpoint:
        raise ConfigurationError(
            f'The backbone "{backbone.name}" is of the kind {backbone.kind}: there is no endpoint to check.'
        )
    return backbone


def _settings_of_url(check_options: CheckOptions) -> "BackboneSettings":
    from tasks.core.errors import ConfigurationError
    from tasks.settings.backbone import BackboneSettings

    if check_options.overrides:
        raise ConfigurationError("--set changes a BACKBONE. With --url, use --model and --api-key-env.")
    return BackboneSettings(
        name=check_options.write.stem if check_options.write else "checked",
        base_url=check_options.url,
        model=check_options.model or "",
        api_key_env=check_options.api_key_env,
        seed=0,
        max_tokens=2048,
        timeout_s=120.0,
    )


def _yaml_of(settings: dict[str, Any], check_options: CheckOptions) -> str:
    """Return the settings as the text of a backbone file, with the command that found them."""
    import yaml

    target = ["--url", check_options.url] if check_options.url else [str(check_options.backbone)]
    command = shlex.join(["crosscheck", "check", *target])
    return f"# Found by: {command}\n" + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _document_of(report: "EndpointReport") -> "Document":
    """Return the table of findings, and what the requests cost."""
    from tasks.core.wording import counted, money, number
    from tasks.documents.model import Block, Column, Document, Sentence, Span, Table

    rows = tuple(
        (finding.name, Span(finding.verdict, TONES[finding.verdict]), finding.detail)
        for finding in report.findings
    )
    columns = (Column("probe", "text"), Column("result", "text"), Column("detail", "text"))
    tokens = f"{number(report.input_tokens)} input tokens, {number(report.output_tokens)} output tokens"
    cost = "cost unknown" if report.cost_usd is None else money(report.cost_usd)
    blocks: list[Block] = [
        Table("", columns, rows, keep=3),
        Sentence(f"{counted(report.requests, 'request')}, {tokens}, {cost}", "note"),
    ]
    if not report.has("model"):
        blocks.append(Sentence("The endpoint cannot be used as it is.", "error"))
    return Document(f"{report.url} · {report.model or 'no model'}", tuple(blocks))
