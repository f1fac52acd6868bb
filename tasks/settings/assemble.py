"""Assembly of an evaluation's settings from names and options."""

from collections.abc import Sequence
from pathlib import Path

from tasks.errors import ConfigurationError
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf, find_data, find_home
from tasks.settings.load import (
    load_backbone_settings,
    load_benchmark_settings,
    load_pipeline_settings,
    load_tracking_settings,
    parse_override,
)


def evaluation_settings(
    *,
    benchmark: str,
    backbone: str,
    pipeline: str,
    overrides: Sequence[str] = (),
    limit: int | None = None,
    questions: str | None = None,
    data: str | None = None,
    home: str | None = None,
    record: str | None = None,
    shards: int = 1,
) -> EvaluationSettings:
    """Read the named settings and put them together.

    Raises:
        ConfigurationError: an unknown name, key or value.
    """
    for override in overrides:
        parse_override(override)
    conf = find_conf()
    return EvaluationSettings(
        benchmark=load_benchmark_settings(conf, benchmark, overrides),
        backbone=load_backbone_settings(conf, backbone, overrides),
        pipeline=load_pipeline_settings(conf, pipeline, overrides),
        tracking=load_tracking_settings(overrides),
        limit=limit,
        questions=questions,
        data=str(find_data(data)),
        home=str(find_home(home).path),
        shards=shards,
        record=str(Path(record).expanduser().resolve()) if record else None,
    )


def benchmark_settings(name: str, overrides: Sequence[str] = ()) -> BenchmarkSettings:
    """Read a benchmark's settings alone, for commands that ask no model.

    Raises:
        ConfigurationError: an unknown name, key or value, or a setting of something else than the benchmark.
    """
    for override in overrides:
        kind, _, _ = parse_override(override)
        if kind != "benchmark":
            raise ConfigurationError(
                f"--set {override}: no model is asked here, so only benchmark.* can be set."
            )
    return load_benchmark_settings(find_conf(), name, overrides)
