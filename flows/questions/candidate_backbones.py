"""Writers: the backbones that write the candidates of a question, and what they need to differ."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import get_args

from flows.questions.demonstrations import most_demonstrations
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.kinds.opening import Layers, open_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.pricing import prices_for
from tasks.backbone.protocol import Backbone
from tasks.core.errors import ConfigurationError
from tasks.scoring.candidate_bill import CandidateSetup
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings
from tasks.settings.pipeline import PipelineSettings, SchemaFormat


@dataclass(frozen=True)
class WriterSettings:
    """Settings of the backbones of a run."""

    # the run's backbone as it is opened: at the temperature of candidates, if it writes them
    own: BackboneSettings
    # those that write candidates, in their turns; a recording stands for all of them
    writers: tuple[BackboneSettings, ...]
    temperature: float | None = None  # at which the run's backbone is to select; None: its own


def writer_settings(settings: EvaluationSettings) -> WriterSettings:
    """Return the settings of the backbones that write a run's candidates, and of the run's own.

    Raises:
        ConfigurationError: there is no backbone of a name.
    """
    own, wanted = settings.backbone, settings.pipeline.candidates
    if kind_of(own).replays:
        return WriterSettings(own, (own,))
    writers = tuple(_load(name, own) for name in wanted.backbones) or (own,)
    if wanted.temperature is None:
        return WriterSettings(own, writers)
    warm = tuple(one.model_copy(update={"temperature": wanted.temperature}) for one in writers)
    for one in warm:
        if one.name == own.name:
            return WriterSettings(one, warm, own.temperature)
    return WriterSettings(own, warm)


def _load(name: str, own: BackboneSettings) -> BackboneSettings:
    """Return the backbone of a name or file; the run's own, with what `--set` changed, where it is that one.

    The epoch of the run's own holds for all.
    """
    if name == own.name:
        return own
    try:
        found = load_backbone_settings(find_conf(), name)
    except ConfigurationError as error:
        raise ConfigurationError(f"pipeline.candidates.backbones: {error}") from None
    if found.name == own.name:
        return own
    return found if own.epoch is None else found.model_copy(update={"epoch": own.epoch})


def check_candidates(settings: EvaluationSettings, *, sends_requests: bool = True) -> None:
    """Check before the first paid call that the candidates can be written, and differ.

    `sends_requests` is as in `check_backbone`.

    Raises:
        ConfigurationError: a backbone is unknown, cannot be used, or would write one candidate several times.
        DataError: what should be served is no recording.
    """
    wanted, found = settings.pipeline.candidates, writer_settings(settings)
    names = [writer.name for writer in found.writers]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f'pipeline.candidates.backbones: "{twice[0]}" is there twice. They take turns: name each once, and give '
            "two files two names."
        )
    if wanted.n < len(wanted.backbones):
        raise ConfigurationError(
            f"pipeline.candidates.n={wanted.n}: {len(wanted.backbones)} backbones are to write candidates. Set "
            f"pipeline.candidates.n to at least {len(wanted.backbones)}."
        )
    for name, writer in zip(wanted.backbones, found.writers, strict=False):
        check_backbone(writer, sends_requests=sends_requests)
        if kind_of(writer).replays and writer is not found.own:
            raise ConfigurationError(
                f'pipeline.candidates.backbones: "{name}" serves a recording, which has the replies of a run of its '
                "own and none to these candidates. Name backbones that can answer."
            )
    if sends_requests:
        _check_different(found.writers, [kind_of(writer).make(writer) for writer in found.writers])
    if wanted.n <= len(found.writers) or kind_of(found.own).replays or _varied_prompts(settings.pipeline):
        return
    for writer in found.writers:
        if kind_of(writer).samples and writer.temperature != 0:
            continue
        why = (
            "answers at temperature 0"
            if kind_of(writer).samples
            else "always gives a question the same answer"
        )
        warmer = "pipeline.candidates.temperature=0.8, " if kind_of(writer).samples else ""
        raise ConfigurationError(
            f"pipeline.candidates.n={wanted.n}: {writer.name} {why}, so its candidates would be the same, and each "
            f"would be paid for. Let them differ with one of: --set {warmer}"
            "pipeline.candidates.demonstrations=shuffled (with at least 2 demonstrations), "
            f"pipeline.candidates.schema_formats=[...] (another format than {settings.pipeline.prompt.schema_format} "
            f"for each candidate after the first, of {', '.join(get_args(SchemaFormat))}), "
            'or several backbones, "pipeline.candidates.backbones=[a, b]", each of which writes one.'
        )


def candidate_setup(settings: EvaluationSettings) -> CandidateSetup:
    """Return how many candidates there are, how one is selected, and what the backbones charge."""
    wanted, found = settings.pipeline.candidates, writer_settings(settings)
    prices = tuple(prices_for(writer) for writer in found.writers)
    return CandidateSetup(wanted.n, wanted.select, prices, prices_for(found.own))


def _varied_prompts(pipeline: PipelineSettings) -> bool:
    """Return whether candidates are shown demonstrations in different orders, or each another schema format."""
    formats = {pipeline.prompt.schema_format, *pipeline.candidates.schema_formats}
    if pipeline.candidates.schema_formats and len(formats) >= pipeline.candidates.n:
        return True
    return pipeline.candidates.demonstrations == "shuffled" and most_demonstrations(pipeline) > 1


@asynccontextmanager
async def open_writers(
    found: WriterSettings, own: MeteredBackbone, layers: Layers
) -> AsyncIterator[tuple[MeteredBackbone, ...]]:
    """Open the backbones that write candidates for one run, each once, in the layers of the run's backbones.

    The run's own, which is open, may be one of them.

    Raises:
        ConfigurationError: two of them are one model with one set of settings, whose replies are cached as the same.
    """
    opened = {found.own.name: own}
    async with AsyncExitStack() as stack:
        for settings in found.writers:
            if settings.name not in opened:
                opened[settings.name] = await stack.enter_async_context(open_backbone(settings, layers))
        writers = tuple(opened[settings.name] for settings in found.writers)
        _check_different(found.writers, writers)  # again, with the response modes that stand for "auto"
        yield writers


def _check_different(
    settings: Sequence[BackboneSettings], writers: Sequence[Backbone | MeteredBackbone]
) -> None:
    known: dict[str, str] = {}
    for one, writer in zip(settings, writers, strict=True):
        before = known.setdefault(repr(sorted(writer.identity.items())), one.name)
        if before != one.name:
            raise ConfigurationError(
                f'pipeline.candidates.backbones: "{before}" and "{one.name}" are one model with the same settings, '
                "so a reply of one counts as the other's. Name one of them."
            )
