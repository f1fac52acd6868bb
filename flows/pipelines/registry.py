"""Which function runs which kind of pipeline settings."""

from collections.abc import Mapping
from typing import Any

from flows.pipelines.baselines import few_shot
from flows.pipelines.context import Pipeline
from flows.pipelines.dac import dac
from flows.pipelines.rsl_sql import rsl_sql
from flows.pipelines.sea_sql import sea_sql

PIPELINES: Mapping[str, Pipeline[Any]] = {
    "few-shot": few_shot,
    "rsl-sql": rsl_sql,
    "dac": dac,
    "sea-sql": sea_sql,
}
