"""`crosscheck check`: what a model's endpoint can do, and the settings that follow."""

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import click
from annotated_types import Ge, Le

from flows.cli import options
from flows.runtime.output import write_text
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.core.wording import counted, money, number
from tasks.settings.home import find_conf

if TYPE_CHECKING:
    from tasks.backbone.endpoint.check import EndpointReport
    from tasks.documents.model import Document
    from tasks.settings.backbone import BackboneSettings

TONES: dict[str, Any] = {"yes": "good", "no": "bad", "unknown": "doubt"}


class Check(options.Files):
    """Find out what a model's endpoint can do, and which settings it needs.

    BACKBONE is a name of `crosscheck list backbones` or a YAML file. Prints what the endpoint accepts, and the settings
    that follow as a backbone file.

    Examples:
      crosscheck check --url http://127.0.0.1:8000/v1
      crosscheck check --url http://127.0.0.1:8000/v1 --model my/model --write my-model.yaml
      crosscheck evaluate --backbone my-model.yaml --limit 20
      crosscheck check openai --parallel 4

    Between 10 and 40 small requests are sent and paid for: the last line says how many tokens they took.

    Exit codes: 0 the model answers; 1 it does not; 2 bad input or configuration.
    """

    backbone: Annotated[str | None, options.Argument()] = None
    url: Annotated[str | None, options.Metavar("URL")] = None
    """Base URL of an endpoint, instead of BACKBONE: http://127.0.0.1:8000/v1."""
    model: Annotated[str | None, options.Metavar("NAME")] = None
    """With --url: the model. [default: the first that the endpoint lists]"""
    api_key_env: Annotated[str | None, options.Metavar("VARIABLE")] = None
    """With --url: environment variable with the key."""
    parallel: Annotated[int, Ge(1), Le(32)] = 8
    """Send at most N requests at once."""
    write: Annotated[Path | None, options.Metavar("FILE"), options.More(type=options.NewFile())] = None
    """Write the settings that follow to FILE, for --backbone FILE. It must not exist yet."""
    overrides: Annotated[tuple[str, ...], options.SETTING, options.More("--set", last=True)] = ()
    """Change one setting of the model: backbone.*. May be given several times."""

    def __call__(self) -> int:
        from tasks.documents.terminal import print_document

        file = self.write
        backbone = self._settings_to_check()
        report = asyncio.run(self._check(backbone))
        settings = report.settings(backbone)
        text = self._yaml_of(settings)
        if file is not None and settings:
            write_text(text, file, "--write", "file")

        def show(stream: TextIO) -> None:
            print_document(_document_of(report), stream)
            if settings:
                name = shlex.quote(str(file or "my-model.yaml"))
                file_note = f"Written to {name}." if file else f"Save it as {name} (or give --write {name})."
                click.echo(
                    f"\n{text}\n{file_note} Then: crosscheck evaluate --backbone {name} --limit 20", stream
                )

        self.emit(report.model_dump(mode="json") | {"settings": settings}, show)
        return ExitCode.DONE if settings else ExitCode.NEGATIVE

    async def _check(self, backbone: "BackboneSettings") -> "EndpointReport":
        from tasks.backbone.endpoint.check import EndpointCheck
        from tasks.backbone.endpoint.client import EndpointBackbone
        from tasks.stages.replies import LinkReply

        client = EndpointBackbone(backbone.model_copy(update={"concurrency": self.parallel}))
        with self.progress() as progress:
            async with client as endpoint:
                check = EndpointCheck(endpoint, backbone, progress.step)
                # the reply of schema linking is an example of a reply with a JSON schema
                return await check.run(LinkReply, self.parallel)

    def _settings_to_check(self) -> "BackboneSettings":
        from tasks.backbone.kind import kind_of
        from tasks.settings.load import load_backbone_settings

        if (self.backbone is None) == (self.url is None):
            raise ConfigurationError("Name either a BACKBONE or --url URL.")
        if self.write is not None and self.write.exists():
            raise ConfigurationError(
                f"--write {self.write}: the file exists. Name another one, or remove it."
            )
        if self.url is not None:
            return self._settings_of_url()
        if self.model or self.api_key_env:
            raise ConfigurationError(
                "--model and --api-key-env belong to --url. For a BACKBONE, use --set backbone.model=NAME."
            )
        backbone = load_backbone_settings(find_conf(), str(self.backbone), self.overrides)
        if not kind_of(backbone).endpoint:
            raise ConfigurationError(
                f'The backbone "{backbone.name}" is of the kind {backbone.kind}: there is no endpoint to check.'
            )
        return backbone

    def _settings_of_url(self) -> "BackboneSettings":
        from tasks.settings.backbone import BackboneSettings

        if self.overrides:
            raise ConfigurationError("--set changes a BACKBONE. With --url, use --model and --api-key-env.")
        return BackboneSettings(
            name=self.write.stem if self.write else "checked",
            base_url=self.url,
            model=self.model or "",
            api_key_env=self.api_key_env,
            seed=0,
            max_tokens=2048,
            timeout_s=120.0,
        )

    def _yaml_of(self, settings: dict[str, Any]) -> str:
        """Return the settings as the text of a backbone file, with the command that found them."""
        import yaml

        target = ["--url", self.url] if self.url else [str(self.backbone)]
        command = shlex.join(["crosscheck", "check", *target])
        return f"# Found by: {command}\n" + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _document_of(report: "EndpointReport") -> "Document":
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
