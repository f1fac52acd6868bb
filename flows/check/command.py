"""`crosscheck check`."""

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from flows.cli import completion, options


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
    "\nAbout 25 small requests are sent, and one question of the demo in each reply format. They are paid for:\n"
    "the last line says how many tokens they took. A server without a key that does not state its context length\n"
    "also gets a prompt of 9,100 tokens and, if it reads that quickly, one of 56,000.\n"
    "\nExit codes: 0 the model answers; 1 it does not; 2 bad input or configuration.",
)
@options.record(CheckOptions)
def command(given: CheckOptions) -> int:
    """Find out what a model's endpoint can do, and which settings it needs.

    BACKBONE is a name of `crosscheck list backbones` or a YAML file. Prints what the endpoint accepts, its speed, and
    the settings that follow as a backbone file.
    """
    from flows.check.document import document_of
    from flows.check.run import backbone_of_url, check, name_of, yaml_of
    from flows.cli.output import write_text
    from flows.report.exit_codes import ExitCode
    from tasks.backbone.kinds.kind import kind_of
    from tasks.core.errors import ConfigurationError
    from tasks.core.files import check_writable
    from tasks.documents.terminal import print_document
    from tasks.settings.home import find_conf
    from tasks.settings.load import load_backbone_settings

    if (given.backbone is None) == (given.url is None):
        raise ConfigurationError("Name either a BACKBONE or --url URL.")
    if given.url is None and (given.model or given.api_key_env):
        raise ConfigurationError(
            "--model and --api-key-env belong to --url. For a BACKBONE, use --set backbone.model=NAME."
        )
    if given.url is not None and given.overrides:
        raise ConfigurationError("--set changes a BACKBONE. With --url, use --model and --api-key-env.")
    if given.write is not None and given.write.exists():
        raise ConfigurationError(f"--write {given.write}: the file exists. Name another one, or remove it.")
    if given.write is not None:
        check_writable(given.write, "--write")
    if given.url is not None:
        settings = backbone_of_url(given.url, given.model, given.api_key_env, name_of(given.write))
    else:
        settings = load_backbone_settings(find_conf(), str(given.backbone), given.overrides)
        if not kind_of(settings).endpoint:
            raise ConfigurationError(
                f'The backbone "{settings.name}" is of the kind {settings.kind}: there is no endpoint to check.'
            )
    with given.progress() as progress:
        checked = asyncio.run(check(settings, given.folders, given.parallel, progress))
    target = ["--url", given.url] if given.url else [str(given.backbone)]
    text = yaml_of(checked.settings, shlex.join(["crosscheck", "check", *target])) if checked.settings else ""
    if given.write is not None and text:
        write_text(text, given.write, "--write", "file")

    def show(stream: TextIO) -> None:
        print_document(document_of(checked), stream)
        if not text:
            return
        click.echo(f"\n{text}", stream, nl=False)
        file = given.write or Path("my-model.yaml")
        where = f"Written to {file}." if given.write else f"Save it as {file} (or give --write {file})."
        click.echo(
            f"\n{where} Then: crosscheck evaluate --backbone {shlex.quote(str(file))} --limit 20", stream
        )

    given.emit(checked.as_object(), show)
    return ExitCode.DONE if checked.report.usable else ExitCode.NEGATIVE
