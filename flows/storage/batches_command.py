"""`crosscheck batches`."""

import asyncio
from dataclasses import dataclass

import click

from flows.cli import completion, options


@dataclass(frozen=True, kw_only=True)
class BatchesOptions(options.Output):
    """Options of `crosscheck batches`."""

    backbone: str = options.argument(shell_complete=completion.names("backbone"))
    cancel: tuple[str, ...] = options.option(
        "--cancel", multiple=True, metavar="ID", help="Cancel this batch. May be given several times."
    )
    cancel_all: bool = options.flag("--cancel-all", "Cancel every batch that has not ended.")
    yes: bool = options.flag("--yes", "Do not ask for confirmation.")
    overrides: tuple[str, ...] = options.set_option("Change one setting of the model: backbone.*.", last=True)


@click.command(
    "batches",
    epilog="\b\nExamples:\n  crosscheck batches openai\n  crosscheck batches openai --cancel batch_68f1\n"
    "  crosscheck batches anthropic --cancel-all --yes\n"
    "\nExit codes: 0 shown or cancelled; 2 bad input or configuration; 3 the provider cannot be reached, and the same "
    "command can be run again.",
)
@options.record(BatchesOptions)
def command(given: BatchesOptions) -> None:
    """Show or cancel the batches that were submitted to a model's provider.

    BACKBONE is a name of `crosscheck list backbones` or a YAML file. The answers that a batch has when it is cancelled
    are paid for, and are not lost: the command that submitted it collects them, and submits the other requests again.
    """
    from flows.storage.batches import batches_document, find_batches
    from tasks.backbone.cache.store import open_reply_cache
    from tasks.backbone.kinds.kind import check_backbone, kind_of
    from tasks.core.errors import ConfigurationError
    from tasks.documents.terminal import print_document
    from tasks.settings.home import find_conf, find_replies
    from tasks.settings.load import load_backbone_settings

    settings = load_backbone_settings(find_conf(), given.backbone, given.overrides)
    if not kind_of(settings).endpoint:
        raise ConfigurationError(
            f'The backbone "{settings.name}" is of the kind {settings.kind}: there is no endpoint with batches.'
        )
    if given.cancel and given.cancel_all:
        raise ConfigurationError("Give either --cancel ID or --cancel-all.")
    check_backbone(settings)
    cancelled = given.cancel or (() if given.cancel_all else None)
    if cancelled is not None and not given.yes:
        which = ", ".join(given.cancel) or "every batch that has not ended"
        question = f"Cancel {which}? The requests without an answer are paid for again when they are needed."
        if not click.confirm(question, err=given.as_json):
            raise click.Abort
    with open_reply_cache(find_replies(given.folder)) as cache:
        found = asyncio.run(find_batches(settings, cache, cancelled))
    given.emit(
        {"backbone": settings.name, "batches": [each.as_object() for each in found]},
        lambda stream: print_document(batches_document(settings, found), stream),
    )
