"""Parameters of the deployed flows: names instead of whole settings, so that Prefect's UI shows a short form.

The names offered are those of the configuration folder and of installed packages when the flow was deployed. Another
file is named by its absolute path: a worker has a working directory of its own.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from types import MappingProxyType
from typing import Any

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tasks.core.errors import ConfigurationError
from tasks.results.run_record import KINDS
from tasks.settings.choices import EvaluationNames, Keep, Labels, QuestionSelection, RerunChoice, Workload
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE
from tasks.settings.load import known_names

OWN_FILE = r"[/~].*(\.ya?ml|\.py:\w+)"
"""Pattern of what names a file of the user: `/path/to/model.yaml`, `/path/to/mine.py:attribute`."""
_offered: ContextVar[Mapping[str, Sequence[str]]] = ContextVar("offered", default=MappingProxyType({}))


@contextmanager
def offering(files: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Offer files of the user, by kind, beside the names in the forms that are deployed in the block."""
    token = _offered.set(files)
    try:
        yield
    finally:
        _offered.reset(token)


def _offer(kind: str, schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of a field that names a benchmark, backbone or pipeline, or several: one offered, or a file.

    Prefect's UI makes of `anyOf` a field for a name or a path, and a list beside it. It shows a text in the first
    choice that has its type, so the list has none. For an array it can only show the list, which has the files of
    nights.yaml too. Prefect's server refuses all else by `if`: its refusal lists the names, that of `anyOf` would not.
    """
    offered = sorted({*known_names(kind), *_offered.get().get(kind, ())})
    if schema["type"] == "array":
        return {**schema, "items": {**schema["items"], "enum": offered}}
    labels: dict[str, Any] = {
        name: schema.pop(name) for name in ("default", "description", "title") if name in schema
    }
    choices = [{"title": "name or file", **schema}, {"title": "list", "enum": offered}]
    condition = {"if": {"pattern": "^[/~]"}, "then": {"pattern": f"^{OWN_FILE}$"}, "else": {"enum": offered}}
    return {**labels, "anyOf": choices, **condition}


class Form(Labels):
    """A form: what is chosen comes first, labels last, and what may be left out has the type that it has otherwise."""

    @model_serializer(mode="wrap")
    def _without_nulls(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Leave out in JSON what is None: the UI refuses a form whose default values do not fit its own schema."""
        fields: dict[str, Any] = dump(self)
        if info.mode != "json":
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of which Prefect's UI makes the form: it cannot show a type that is "or null"."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        resolved = handler.resolve_ref_schema(schema)
        others = [name for name in resolved["properties"] if name not in (*_FIRST, *Labels.model_fields)]
        fields = resolved["properties"]
        for kind in KINDS:
            for name in {kind, f"{kind}s"} & fields.keys():
                fields[name] = _offer(kind, fields[name])
        order = (*_FIRST, *others, *Labels.model_fields)
        resolved["properties"] = {name: _without_null(fields[name]) for name in order if name in fields}
        return schema


_FIRST = ("benchmark", "benchmarks", "backbone", "backbones", "pipeline", "pipelines", "limit", "run", "only")
"""Fields with which forms begin."""


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field "one type or null" as that of the type, without a default; others as they are."""
    types = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if len(types) != 1 or len(types) == len(field["anyOf"]):
        return field
    rest = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    return {**rest, **types[0]}


class MayBeLeftOut:
    """Annotation of a flow's parameter that may be None; forms show it with the type that it has otherwise."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of which Prefect's UI makes the field."""
        return _without_null(handler(core_schema))


class EvaluationForm(Form, EvaluationNames):
    """One evaluation; files are named by their absolute path."""

    def command(self, epoch: str | None = None) -> str:
        """Return the command that evaluates it; it reuses only replies of the `epoch`, a period such as a date."""
        words = ["crosscheck", "evaluate"]
        for name in (*KINDS, *QuestionSelection.model_fields, "data"):
            value = getattr(self, name)
            if value is not None:
                words += [f"--{name.replace('_', '-')}", str(value)]
        for override in (*self.overrides, *([f"backbone.epoch={epoch}"] if epoch else [])):
            words += ["--set", override]
        return shlex.join(words)


class Matrix(Form, Workload):
    """Every combination of benchmarks, backbones and pipelines, evaluated one after the other."""

    benchmarks: list[str] = Field([DEFAULT_BENCHMARK], min_length=1)
    """Names of the benchmarks, or files that nights.yaml names."""
    backbones: list[str] = Field([DEFAULT_BACKBONE], min_length=1)
    """Names of the backbones, or files that nights.yaml names."""
    pipelines: list[str] = Field([DEFAULT_PIPELINE], min_length=1)
    """Names of the pipelines, or files that nights.yaml names."""
    overrides: list[str] = Field([])
    """Settings to change, as `--set` takes them: `pipeline.demonstrations.k=5`."""
    data: str | None = None
    """Folder of the benchmarks' files on the worker; left out: its CROSSCHECK_DATA."""
    baselines: dict[str, str] = Field({})
    """Run to compare with, by "benchmark | backbone | pipeline"; left out: the previous complete run."""

    def check_baselines(self, names: Collection[str]) -> None:
        """Check that baselines are named for evaluations of the matrix, whose names are given."""
        if unknown := self.baselines.keys() - names:
            raise ConfigurationError(
                f"baselines names {', '.join(sorted(unknown))}, which the matrix does not contain. It contains: "
                f"{'; '.join(sorted(names))}."
            )

    @property
    def evaluations(self) -> list[EvaluationForm]:
        """The combinations."""
        common = {name: getattr(self, name) for name in (*Labels.model_fields, *Workload.model_fields)}
        return [
            EvaluationForm(
                benchmark=benchmark,
                backbone=backbone,
                pipeline=pipeline,
                overrides=tuple(self.overrides),
                data=self.data,
                **common,
            )
            for benchmark, backbone, pipeline in product(self.benchmarks, self.backbones, self.pipelines)
        ]


class Cleaning(Keep):
    """Cleaning of the working folder, as `crosscheck clean`: what of old runs is kept."""

    age: str = ""
    """Runs that are younger are kept: a number and d, h or m, `30d`; empty: nothing is removed."""

    @property
    def keep(self) -> Keep | None:
        """What is kept; None: everything."""
        return Keep(**self.model_dump()) if self.age else None


class RerunForm(Form, RerunChoice):
    """Parameters of a re-run: the run, and the questions to ask again."""

    data: str | None = None
    """Folder of the benchmarks' files on the worker; left out: its CROSSCHECK_DATA."""
