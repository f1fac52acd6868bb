"""Assembly of an evaluation's settings from names and options."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from tasks.core.errors import ConfigurationError, first_problem
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.choices import EvaluationChoice, Workload
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf, find_data, find_home
from tasks.settings.kinds import AnyBenchmark
from tasks.settings.load import (
    load_backbone_settings,
    load_benchmark_settings,
    load_pipeline_settings,
    load_tracking_settings,
    parse_override,
)
from tasks.settings.pipeline import without_demonstrations


def evaluation_settings(choice: EvaluationChoice) -> EvaluationSettings:
    """Read the settings that a user names and put them together."""
    for override in choice.overrides:
        parse_override(override)  # an error where it is malformed, before any file is read
    conf = find_conf()
    chosen = _chosen(conf, choice, choice.overrides)
    return EvaluationSettings(
        **chosen,
        **{name: getattr(choice, name) for name in Workload.model_fields},
        tracking=load_tracking_settings(choice.overrides),
        changed=_changed(conf, choice, chosen),
        data=str(find_data(choice.data)),
        home=str(find_home(choice.home).path),
        record=str(Path(choice.record).expanduser().resolve()) if choice.record else None,
    )


def _chosen(conf: Path, choice: EvaluationChoice, overrides: Sequence[str]) -> dict[str, Any]:
    benchmark = load_benchmark_settings(conf, choice.benchmark, overrides)
    pipeline = load_pipeline_settings(conf, choice.pipeline, overrides)
    return {
        "benchmark": benchmark,
        "backbone": load_backbone_settings(conf, choice.backbone, overrides),
        "pipeline": pipeline if benchmark.demonstrations else without_demonstrations(pipeline),
    }


def _changed(conf: Path, choice: EvaluationChoice, chosen: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the overrides that give a setting another value than it has without any override.

    Of several overrides of a key only the last counts.
    """
    try:
        defaults = _chosen(conf, choice, ()) if choice.overrides else {}
    except ConfigurationError:  # some backbones cannot be without a setting: all overrides count
        defaults = {}
    changed = {}
    for override in choice.overrides:
        kind, keys, _ = parse_override(override)
        if kind in chosen and (
            kind not in defaults or _value(chosen[kind], keys) != _value(defaults[kind], keys)
        ):
            changed[kind, *keys] = override
    return tuple(changed.values())


def _value(settings: BaseModel, keys: Sequence[str]) -> Any:
    value: Any = settings.model_dump(mode="json")
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def benchmark_settings(name: str, overrides: Sequence[str] = ()) -> BenchmarkSettings:
    """Read a benchmark's settings alone, for commands that ask no model."""
    for override in overrides:
        kind, _, _ = parse_override(override)
        if kind != "benchmark":
            raise ConfigurationError(
                f"--set {override}: this command calls no model, so only benchmark.* can be set."
            )
    return load_benchmark_settings(find_conf(), name, overrides)


def stored_benchmark(content: Mapping[str, Any]) -> BenchmarkSettings:
    """Return a stored run's benchmark settings without the answer keys, corrected golds that only scoring reads."""
    try:
        plain = {**content, "answer_keys": []}
        settings: BenchmarkSettings = TypeAdapter(AnyBenchmark).validate_json(json.dumps(plain))
    except ValidationError as error:
        raise ConfigurationError(
            f"The stored settings of the benchmark {content.get('name')} are not valid in this release: "
            f"{first_problem(error)}."
        ) from None
    return settings
