"""Whether the cost of evaluations is known, so that a budget can be kept."""

from collections.abc import Sequence

from flows.questions.candidate_backbones import writer_settings
from flows.questions.eliminator import asks_eliminator
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.pricing import why_unpriced
from tasks.backbone.tiers import BATCH
from tasks.core.errors import ConfigurationError
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings


def selecting_calls(settings: EvaluationSettings) -> int:
    """Return the calls per question, at most, that select among its candidates."""
    wanted = settings.pipeline.candidates
    most = {"vote": 0, "pairwise": wanted.n * (wanted.n - 1), "tournament": wanted.n - 1, "merge": 1}
    return most[wanted.select] if wanted.n > 1 else 0


def why_no_budget(backbone: BackboneSettings) -> str:
    """Return why no budget can be kept for a backbone's calls; "" if one can."""
    if not kind_of(backbone).paid:
        return ""
    if backbone.tier == BATCH:
        return "it submits batches, whose cost is known only once they are paid for (set backbone.tier=flex)"
    return why_unpriced(backbone)


def check_budget(
    evaluations: Sequence[EvaluationSettings], budget_usd: float | None, option: str = "--budget"
) -> None:
    """Check a budget: that it is an amount, and that the cost of every evaluation is known. `option` is its name.

    Raises:
        ConfigurationError: a negative amount, a backbone without a price, or an eliminator.
    """
    if budget_usd is None:
        return
    if not budget_usd > 0:
        raise ConfigurationError(f"{option} {budget_usd:g}: it must be more than 0 US dollars.")
    if second := next((each for each in evaluations if asks_eliminator(each)), None):
        raise ConfigurationError(
            f"{option}: {second.pipeline.name} uses an eliminator, a second backbone, whose calls no budget "
            f"counts. Leave {option} out, or set pipeline.eliminator=null."
        )
    unpriced = {name: why for each in evaluations for name, why in _unpriced(each).items()}
    if unpriced:
        raise ConfigurationError(
            f"{option}: what {', '.join(sorted(unpriced))} costs is unknown beforehand, so no budget can be kept: "
            f"{'; '.join(f'{name}: {why}' for name, why in sorted(unpriced.items()))}. Give it prices in its YAML file "
            "(prices: {input: ..., output: ..., as_of: ...}, USD per million tokens)."
        )


def _unpriced(settings: EvaluationSettings) -> dict[str, str]:
    """Return why calls have no price and are not free, by name of the backbone."""
    found = writer_settings(settings)
    used = (found.own, *found.writers) if selecting_calls(settings) else found.writers
    reasons = {one.name: why_no_budget(one) for one in used}
    return {name: why for name, why in reasons.items() if why}
