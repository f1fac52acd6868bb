"""Stages: plain async functions that run as cached, retried Prefect tasks.

    @stage(prompts=("forward_link",))
    async def forward_link(question: Question, view: SchemaView, ..., backbone: MeteredBackbone) -> Link: ...

A pipeline awaits `forward_link(...)` and gets a `Link`. What happens around a call (`Stage.__call__`) is decided by the
question's `QuestionRun`, which a flow sets for each question.

One rule decides what each argument contributes to the key: an argument either has an identity of its own, or is plain
data and contributes all of it. Nothing can be forgotten, and no client object, path or secret can get in: anything else
raises TypeError.
"""

import ast
import hashlib
import inspect
import json
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, singledispatch, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Origin
from tasks.core.outcome import Call, StageRecord
from tasks.core.records import Question
from tasks.core.registry import is_shipped
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema
from tasks.settings.kinds import STAGES
from tasks.stages import prompts
from tasks.stages.question_run import NotExecutable, StageStore, current_question_run

_PLAIN = frozenset((type(None), str, int, float, bool))


@singledispatch
def identity(value: Any) -> Any:
    """Return plain JSON that identifies an argument: equal arguments, equal JSON; TypeError if none is defined."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _within(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_within(inner) for inner in value]
    if isinstance(own_identity := getattr(value, "identity", None), Mapping):
        return identity(own_identity)
    if is_dataclass(value):
        # What makes no difference between two values makes none between their keys.
        return {field.name: _within(getattr(value, field.name)) for field in fields(value) if field.compare}
    raise TypeError(f"a {type(value).__name__} has no identity that could be part of a cache key")


def _within(value: Any) -> Any:
    """Return the identity of a part of a value: plain data, which most parts are, without a dispatch."""
    return value if type(value) in _PLAIN else identity(value)


@identity.register
def _(value: Schema) -> Any:
    return value.digest


@identity.register
def _(value: Question) -> Any:
    # Not the id: the same question of another split, asked of the same schema, has the same answer.
    return [value.text, value.evidence]


@identity.register
def _(value: BaseModel) -> Any:
    return value.model_dump(mode="json")


FORMAT = 2
"""Number of the form of persisted results; a result of another form is not restored."""


def cache_key(stage: str, code: str, prompts: str, arguments: Mapping[str, Any], attempt: int = 0) -> str:
    """Return the key of one stage's result: sha256 over everything the result depends on.

    A `TypeError` says which argument has no identity, and how to add one.
    """
    content = {
        "format": FORMAT,
        "stage": stage,
        "code": code,
        "prompts": prompts,
        "attempt": attempt,
        "arguments": {name: _argument_identity(stage, name, value) for name, value in arguments.items()},
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _argument_identity(stage: str, name: str, value: Any) -> Any:
    try:
        return identity(value)
    except TypeError as error:
        raise TypeError(
            f'The stage "{stage}" cannot be cached: in its argument "{name}", {error}. Do one of these:\n'
            "1. pass plain data: None, text, numbers, booleans, tuples, lists and mappings of such, or a dataclass or "
            "pydantic model of such;\n"
            "2. give the class a property `identity` that returns a mapping of plain data: everything of it that the "
            "stage's result depends on;\n"
            "3. for a class that is not yours, register a function that returns such data: "
            "`@tasks.stages.stage.identity.register`."
        ) from error


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StageResult(Generic[T]):
    """The result of one stage call; as plain JSON it is what is persisted."""

    value: T  # what the stage returned
    calls: tuple[Call, ...] = ()  # its model calls
    notes: tuple[str, ...] = ()  # what was less than ideal
    seconds: float = 0.0  # wall time of the stage
    made_by: str = ""  # the evaluation and the question that it ran for
    # replies, unreadable, fallback: as in `StageRecord`
    replies: int = 0
    unreadable: int = 0
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place of a stage call in an evaluation."""

    stage: str  # name of the stage
    label: str  # the name, numbered from the stage's second call for the question on
    question: Question
    owner: str  # the evaluation and the question that the call belongs to
    key: str  # where the result is persisted: `stage/sha256`

    @property
    def name(self) -> str:
        """Stage, database and question."""
        return f"{self.label} · {self.question.database_id} · {self.question.id}"


def code_of(function: Callable[..., Any]) -> str:
    """Return a function's source without its docstring; "" where there is none (an interactive session)."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    if (
        isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(definition) is not None
    ):
        docstring = definition.body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
    return "\n".join(lines)


class Stage(Generic[P, T]):
    """A stage of a pipeline; made by `stage`."""

    def __init__(
        self, function: Callable[P, Awaitable[T]], version: int, prompt_names: tuple[str, ...]
    ) -> None:
        update_wrapper(self, function)
        self.name = function.__name__
        STAGES.add(self.name)
        self.function: Callable[..., Awaitable[T]] = function
        self.version = version
        self.prompt_names = prompt_names
        self._signature = inspect.signature(function)
        # Stages from outside are known by their module too: two files may each have a stage of one name.
        outside = not is_shipped(function)
        self._key_name = f"{function.__module__}.{self.name}" if outside else self.name
        if outside:
            self._code  # noqa: B018 - read now: a user may edit the file while a run works

    @cached_property
    def _results(self) -> TypeAdapter[StageResult[T]]:
        returned = get_type_hints(self.function)["return"]
        return TypeAdapter(StageResult[returned])  # type: ignore[valid-type]

    @cached_property
    def _code(self) -> str:
        return hashlib.sha256(f"{self.version}\n{code_of(self.function)}".encode()).hexdigest()

    def key(self, arguments: Mapping[str, Any], attempt: int = 0) -> str:
        """Return where the result of a call with these arguments is persisted: `stage/sha256`."""
        digest = prompts.digest(*self.prompt_names) if self.prompt_names else ""
        return f"{self.name}/{cache_key(self._key_name, self._code, digest, arguments, attempt)}"

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Restore the stage's result, or run it; raises NotCached, NotExecutable or Stopped.

        It runs again after an error that may pass; model calls made before that are kept.
        """
        # 1. The key of the result, from everything that it depends on.
        question_run = current_question_run()
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        label = question_run.label(self.name)
        _require_database(bound.arguments, label)
        attempts = question_run.attempts
        arguments, meter = _with_meter(bound.arguments, question_run.question, label, attempts[0])
        keys = [self.key(arguments, attempt) for attempt in attempts]
        site = CallSite(self.name, label, question_run.question, question_run.owner, keys[0])
        # 2. A persisted result.
        store = None if question_run.ignore_cache else question_run.store
        plain = await _first_persisted(store, keys)
        restored = plain is not None
        if not restored:
            question_run.check_may_run(site.key)
        # 3. The stage itself. A task run that holds the call persists the result before it is used.
        try:
            task_runs = question_run.task_runs
            turn = task_runs.add_call(site) if task_runs and not restored else nullcontext()
            while plain is None:
                async with turn:  # left without an error where the stage is to run again
                    if meter:
                        meter.again()
                    started = time.perf_counter()
                    value = await self.function(**arguments)
                    result = _plain_result(value, meter, time.perf_counter() - started, site.owner)
                    if task_runs:
                        await task_runs.store.write(site.key, result)
                    plain = result
        except Exception as error:
            question_run.records.append(_failed_record(site, meter, error))
            raise
        # 4. Its record.
        read = self._results.validate_python(plain)
        # Every question is first restored as far as it goes, so each restored result is counted once.
        if question_run.only_restores and meter:
            meter.count_restored(read.calls)
        is_own = question_run.count_own(site.key, plain, ran=not restored)
        question_run.records.append(_record(site, plain["value"], read, restored=not is_own))
        return read.value


def _plain_result(value: Any, meter: MeteredBackbone | None, seconds: float, owner: str) -> dict[str, Any]:
    spent = meter.spent if meter else {}
    result = StageResult(value, seconds=round(seconds, 6), made_by=owner, **spent)
    plain: dict[str, Any] = to_jsonable_python(result)
    return plain


def _record(site: CallSite, value: Any, result: StageResult[Any], *, restored: bool) -> StageRecord:
    names = ("calls", "notes", "seconds", "replies", "unreadable", "fallback")
    copied = {name: getattr(result, name) for name in names}
    return StageRecord(site.stage, site.label, value, restored=restored, **copied)


def _failed_record(site: CallSite, meter: MeteredBackbone | None, error: Exception) -> StageRecord:
    calls = tuple(meter.calls) if meter else ()
    notes = tuple(meter.notes) if meter else ()
    return StageRecord(
        site.stage, site.label, None, restored=False, calls=calls, notes=notes, error=str(error)
    )


def stage(
    *, version: int = 1, prompts: tuple[str, ...] = ()
) -> Callable[[Callable[P, Awaitable[T]]], Stage[P, T]]:
    """Turn a module-level async function into a stage.

    A result is restored only as long as the function's code, its docstring apart, and the templates that it renders,
    `prompts`, are the same. Raise `version` when something that the function calls changes what it returns: most of
    what a stage does is in functions that it shares with others.

    The function's return type must be one that pydantic can read back from JSON. Its arguments must all have an
    identity (`tasks.stages.stage.identity`); one named `backbone` is metered.
    """
    return lambda function: Stage(function, version, prompts)


async def _first_persisted(store: StageStore | None, keys: Sequence[str]) -> Mapping[str, Any] | None:
    if store is None:
        return None
    for key in keys:
        if (persisted := await store.read(key)) is not None:
            return persisted
    return None


def _with_meter(
    arguments: Mapping[str, Any], question: Question, label: str, attempt: int
) -> tuple[Mapping[str, Any], MeteredBackbone | None]:
    """Return the arguments with a backbone that counts the calls of this stage, and that backbone."""
    backbone = arguments.get("backbone")
    if not isinstance(backbone, MeteredBackbone):
        return arguments, None
    meter = backbone.fresh(Origin(question.id, question.database_id, label), attempt)
    return {**arguments, "backbone": meter}, meter


def _require_database(arguments: Mapping[str, Any], label: str) -> None:
    """Raise NotExecutable for a stage that executes SQL, that is, takes a runner, where there is no database."""
    runner = arguments.get("runner")
    if isinstance(runner, DatabaseRunner) and not runner.database.executable:
        raise NotExecutable(label, runner.database.id)
