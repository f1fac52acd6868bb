"""The backbones that a run has beside its own: writers of candidates, and SEA-SQL's eliminator.

Their settings and checks, before a server starts; `flows.evaluate.resources` opens them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from flows.evaluate.demonstrations import most_demonstrations
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.pricing import prices_for
from tasks.core.errors import ConfigurationError
from tasks.scoring.candidates import CandidateSetup
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings
from tasks.settings.pipeline import PipelineSettings, SchemaFormat, SeaSqlSettings

if TYPE_CHECKING:
    from tasks.backbone.metered import MeteredBackbone
    from tasks.backbone.protocol import Backbone


@dataclass(frozen=True)
class WriterSettings:
    """Settings of the backbones of a run."""

    # the run's backbone as it is opened: at the temperature of candidates, if it writes them
    own: BackboneSettings
    # those that write candidates, in their turns; a recording stands for all of them
    writers: tuple[BackboneSettings, ...]
    temperature: float | None = None  # at which the run's backbone is to select; None: its own


def writer_settings(settings: EvaluationSettings) -> WriterSettings:
    """Return the settings of the backbones that write a run's candidates, and of the run's own."""
    own, candidates = settings.backbone, settings.pipeline.candidates
    if kind_of(own).replays:
        return WriterSettings(own, (own,))
    writers = tuple(_load(name, own) for name in candidates.backbones) or (own,)
    if candidates.temperature is None:
        return WriterSettings(own, writers)
    warm = tuple(one.model_copy(update={"temperature": candidates.temperature}) for one in writers)
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
        backbone = load_backbone_settings(find_conf(), name)
    except ConfigurationError as error:
        raise ConfigurationError(f"pipeline.candidates.backbones: {error}") from None
    if backbone.name == own.name:
        return own
    return backbone if own.epoch is None else backbone.model_copy(update={"epoch": own.epoch})


def check_candidates(settings: EvaluationSettings, *, sends_requests: bool = True) -> None:
    """Check before the first paid call that the candidates can be written, and differ.

    `sends_requests` is as in `check_backbone`.
    """
    candidates, writers = settings.pipeline.candidates, writer_settings(settings)
    names = [writer.name for writer in writers.writers]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f'pipeline.candidates.backbones: "{twice[0]}" is there twice. They take turns: name each once, and give '
            "two files two names."
        )
    if candidates.n < len(candidates.backbones):
        raise ConfigurationError(
            f"pipeline.candidates.n={candidates.n}: {len(candidates.backbones)} backbones are to write candidates. Set "
            f"pipeline.candidates.n to at least {len(candidates.backbones)}."
        )
    for name, writer in zip(candidates.backbones, writers.writers, strict=False):
        check_backbone(writer, sends_requests=sends_requests)
        if kind_of(writer).replays and writer is not writers.own:
            raise ConfigurationError(
                f'pipeline.candidates.backbones: "{name}" serves a recording, which has the replies of a run of its '
                "own and none to these candidates. Name backbones that can answer."
            )
    if sends_requests:
        check_different(writers.writers, [kind_of(writer).make(writer) for writer in writers.writers])
    if (
        candidates.n <= len(writers.writers)
        or kind_of(writers.own).replays
        or _varied_prompts(settings.pipeline)
    ):
        return
    for writer in writers.writers:
        if kind_of(writer).samples and writer.temperature != 0:
            continue
        why = (
            "answers at temperature 0"
            if kind_of(writer).samples
            else "always gives a question the same answer"
        )
        warmer = "pipeline.candidates.temperature=0.8, " if kind_of(writer).samples else ""
        raise ConfigurationError(
            f"pipeline.candidates.n={candidates.n}: {writer.name} {why}, so its candidates would be the same, and each "
            f"would be paid for. Let them differ with one of: --set {warmer}"
            "pipeline.candidates.demonstrations=shuffled (with at least 2 demonstrations), "
            f"pipeline.candidates.schema_formats=[...] (another format than {settings.pipeline.prompt.schema_format} "
            f"for each candidate after the first, of {', '.join(get_args(SchemaFormat))}), "
            'or several backbones, "pipeline.candidates.backbones=[a, b]", each of which writes one.'
        )


def candidate_setup(settings: EvaluationSettings) -> CandidateSetup:
    """Return how many candidates there are, how one is selected, and what the backbones charge."""
    candidates, writers = settings.pipeline.candidates, writer_settings(settings)
    prices = tuple(prices_for(writer) for writer in writers.writers)
    return CandidateSetup(candidates.n, candidates.select, prices, prices_for(writers.own))


def _varied_prompts(pipeline: PipelineSettings) -> bool:
    """Return whether candidates are shown demonstrations in different orders, or each another schema format."""
    formats = {pipeline.prompt.schema_format, *pipeline.candidates.schema_formats}
    if pipeline.candidates.schema_formats and len(formats) >= pipeline.candidates.n:
        return True
    return pipeline.candidates.demonstrations == "shuffled" and most_demonstrations(pipeline) > 1


def check_different(
    settings: Sequence[BackboneSettings], writers: "Sequence[Backbone | MeteredBackbone]"
) -> None:
    """Check that backbones which write candidates are different models, or have different settings."""
    known: dict[str, str] = {}
    for own, writer in zip(settings, writers, strict=True):
        before = known.setdefault(repr(sorted(writer.identity.items())), own.name)
        if before != own.name:
            raise ConfigurationError(
                f'pipeline.candidates.backbones: "{before}" and "{own.name}" are one model with the same settings, '
                "so a reply of one counts as the other's. Name one of them."
            )


def asks_eliminator(settings: EvaluationSettings) -> bool:
    """Return whether a run asks a model to eliminate bias; a recording already has its replies."""
    return eliminator_name(settings.pipeline) is not None and not kind_of(settings.backbone).replays


def eliminator_settings(
    settings: EvaluationSettings, *, sends_requests: bool = True
) -> BackboneSettings | None:
    """Return the settings of a run's eliminator; None where it needs none, or a recording has its replies.

    It has the epoch of the run's backbone, if that has one. `sends_requests` is as in `check_backbone`.
    """
    name = eliminator_name(settings.pipeline)
    if name is None or not asks_eliminator(settings):
        return None
    backbone = load_backbone_settings(find_conf(), name)
    check_backbone(backbone, sends_requests=sends_requests)
    epoch = settings.backbone.epoch
    return backbone if epoch is None else backbone.model_copy(update={"epoch": epoch})


def eliminator_name(pipeline: PipelineSettings) -> str | None:
    """Return the name of a pipeline's eliminator; None where it needs none."""
    if not isinstance(pipeline, SeaSqlSettings) or not pipeline.bias_elimination.enabled:
        return None
    return pipeline.eliminator
