"""Stages: plain async functions that run as cached, retried Prefect tasks.

    @stage(prompts=("forward_link",))
    async def forward_link(question: Question, view: SchemaView, ..., backbone: MeteredBackbone) -> Link: ...

A pipeline awaits `forward_link(...)` and gets a `Link`. For each call:

1. the cache key is computed from all arguments, the stage's code and its prompts (`tasks.cache_key`);
2. a result persisted by an earlier run is restored without a task run (and its record is marked as restored);
3. otherwise the function runs as a Prefect task named `forward_link · superhero · 717`, is retried on transient
   errors only, and its result is persisted under the key.

What happens around a call is decided by the question's `Trail`, which a flow sets for each question.
"""

import ast
import hashlib
import inspect
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Origin
from tasks.cache_key import cache_key
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.errors import BackboneError
from tasks.records import Call, Question, StageRecord
from tasks.trail import NotCached, NotExecutable, StageStore, Stopped, current_trail

P = ParamSpec("P")
T = TypeVar("T")

TASK_RETRY_DELAYS_S = (5.0, 30.0)
"""Pauses before a task is tried again; the backbone has already retried each request with back-off of its own."""


@dataclass(frozen=True, slots=True)
class StageResult(Generic[T]):
    """The result of one stage call; as plain JSON it is what Prefect persists.

    Attributes:
        value: what the stage returned.
        calls: its model calls.
        notes: what was less than ideal.
        seconds: wall time of the stage.
        made_by: the evaluation and the question that it ran for.
    """

    value: T
    calls: tuple[Call, ...]
    notes: tuple[str, ...]
    seconds: float
    made_by: str = ""


class StageCall:
    """One call of a stage, as it passes through Prefect.

    A plain class on purpose: Prefect walks into dataclasses, models and containers to look for futures, which
    costs milliseconds for a schema of thousands of columns. It does not look into this.
    """

    __slots__ = ("arguments", "function", "mark", "meter", "started")

    def __init__(
        self, function: Callable[..., Awaitable[Any]], arguments: Mapping[str, Any], mark: str
    ) -> None:
        self.function = function
        self.mark = mark
        self.started = 0.0
        backbone = arguments.get("backbone")
        self.meter = backbone if isinstance(backbone, MeteredBackbone) else None
        self.arguments = dict(arguments)

    def begin(self) -> Awaitable[Any]:
        """Return the stage's coroutine; a retry keeps the calls of the attempts before it."""
        if self.meter:
            self.meter.again()
        self.started = time.perf_counter()
        return self.function(**self.arguments)

    def result(self, value: Any) -> dict[str, Any]:
        """Return the `StageResult` with the stage's value as plain JSON."""
        seconds = round(time.perf_counter() - self.started, 6)
        found: dict[str, Any] = to_jsonable_python(
            StageResult(value, self.calls, self.notes, seconds, self.mark)
        )
        return found

    @property
    def calls(self) -> tuple[Call, ...]:
        """Model calls made so far, those of a failed run included."""
        return tuple(self.meter.calls) if self.meter else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was less than ideal."""
        return tuple(self.meter.notes) if self.meter else ()


class Stage(Generic[P, T]):
    """A stage of a pipeline; made by `stage`."""

    def __init__(
        self, function: Callable[P, Awaitable[T]], version: int, prompt_names: tuple[str, ...]
    ) -> None:
        update_wrapper(self, function)
        self.name = function.__name__
        self.function = function
        self.version = version
        self.prompt_names = prompt_names
        self._signature = inspect.signature(function)
        # Stages from outside are known by their module too: two files may each have a stage of one name.
        outside = function.__module__.partition(".")[0] not in ("flows", "tasks")
        self._key_name = f"{function.__module__}.{self.name}" if outside else self.name

    @cached_property
    def _results(self) -> TypeAdapter[StageResult[T]]:
        returned = get_type_hints(self.function)["return"]
        return TypeAdapter(StageResult[returned])  # type: ignore[valid-type]

    @cached_property
    def _code(self) -> str:
        return hashlib.sha256(f"{self.version}\n{code_of(self.function)}".encode()).hexdigest()

    @cached_property
    def _task(self) -> Callable[..., Awaitable[dict[str, Any]]]:
        return _as_task(self.name)

    @cached_property
    def _task_anew(self) -> Callable[..., Awaitable[dict[str, Any]]]:
        # Prefect has a cache lookup of its own, which does not know of the trail's store.
        return _as_task(self.name, refresh_cache=True)

    def key(self, arguments: Mapping[str, Any], attempt: int = 0) -> str:
        """Return where the result of a call with these arguments is persisted: `stage/sha256`."""
        digest = prompts.digest(*self.prompt_names) if self.prompt_names else ""
        return f"{self.name}/{cache_key(self._key_name, self._code, digest, arguments, attempt)}"

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Restore the stage's result, or run it.

        Raises:
            NotCached: in a trail that restores, when there is no persisted result.
            NotExecutable: the stage executes SQL, and of its database only the schema is known.
            Stopped: when the evaluation is being stopped.
            BackboneError: when the backbone gave no answer even after retries.
        """
        trail = current_trail()
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        label = trail.label(self.name)
        attempts, store = trail.attempts, None if trail.anew else trail.store
        _require_database(bound.arguments, label)
        arguments = _with_meter(bound.arguments, trail.question, label, attempts[0])
        keys = [self.key(arguments, attempt) for attempt in attempts]
        plain = await _first_persisted(store, keys)
        ran = plain is None
        if plain is None:
            if trail.mode == "restore":
                raise NotCached(keys[0])
            if trail.stopped():
                raise Stopped
            call = StageCall(self.function, arguments, trail.mark)
            try:
                if trail.mode == "tasks":
                    trail.executed += 1
                    name = f"{label} · {trail.question.database_id} · {trail.question.id}"
                    task = self._task if store else self._task_anew
                    plain = await task(label=name, key=keys[0], call=call)
                else:
                    plain = call.result(await call.begin())
            except Exception as error:
                failed = StageRecord(self.name, label, None, False, call.calls, call.notes, error=str(error))
                trail.records.append(failed)
                raise
        result = self._results.validate_python(plain)
        restored = not trail.made(plain, ran=ran)
        trail.records.append(
            StageRecord(
                self.name, label, plain["value"], restored, result.calls, result.notes, result.seconds
            )
        )
        return result.value


def stage(
    *, version: int = 1, prompts: tuple[str, ...] = ()
) -> Callable[[Callable[P, Awaitable[T]]], Stage[P, T]]:
    """Turn a module-level async function into a stage.

    A result is restored only as long as the function's code is the same, its docstring apart, and its prompts are.

    Args:
        version: raise it when something that the function calls changes what it returns: Prefect's TASK_SOURCE sees
            the function alone, too, and most of what a stage does is in functions that it shares with others.
        prompts: names of the prompt templates it renders.

    The function's return type must be one that pydantic can read back from JSON. Its arguments must all have an
    identity (`tasks.cache_key.identity`); one named `backbone` is metered.
    """
    return lambda function: Stage(function, version, prompts)


def code_of(function: Callable[..., Any]) -> str:
    """Return a function's source without its docstring; "" where there is none (an interactive session)."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    first = getattr(definition, "body", [None])[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)


async def _first_persisted(store: StageStore | None, keys: Sequence[str]) -> Mapping[str, Any] | None:
    for key in keys if store else ():
        if store and (persisted := await store.read(key)) is not None:
            return persisted
    return None


def _with_meter(
    arguments: Mapping[str, Any], question: Question, label: str, attempt: int
) -> Mapping[str, Any]:
    backbone = arguments.get("backbone")
    if not isinstance(backbone, MeteredBackbone):
        return arguments
    origin = Origin(question.id, question.database_id, label)
    return {**arguments, "backbone": backbone.fresh(origin, attempt)}


def _require_database(arguments: Mapping[str, Any], label: str) -> None:
    """Raise NotExecutable for a stage that executes SQL, that is, takes a runner, where there is no database."""
    runner = arguments.get("runner")
    if isinstance(runner, DatabaseRunner) and not runner.database.executable:
        raise NotExecutable(label, runner.database.id)


def _as_task(name: str, *, refresh_cache: bool | None = None) -> Callable[..., Awaitable[dict[str, Any]]]:
    from prefect import task
    from prefect.cache_policies import CacheKeyFnPolicy

    async def run_stage(label: str, key: str, call: StageCall) -> dict[str, Any]:
        return call.result(await call.begin())

    # Prefect derives a task's key from the function's qualified name: without this, all stages would share one.
    run_stage.__name__ = run_stage.__qualname__ = name
    make_task = task(
        name=name,
        task_run_name="{label}",
        cache_policy=CacheKeyFnPolicy(cache_key_fn=lambda context, parameters: parameters["key"]),
        persist_result=True,
        refresh_cache=refresh_cache,
        result_serializer="json",
        retries=len(TASK_RETRY_DELAYS_S),
        retry_delay_seconds=list(TASK_RETRY_DELAYS_S),
        retry_condition_fn=_is_transient,
    )
    made: Callable[..., Awaitable[dict[str, Any]]] = make_task(run_stage)
    return made


async def _is_transient(task: Any, run: Any, state: Any) -> bool:
    # state.result() is a coroutine here and would always look true; the exception itself is in state.data.
    data = state.data
    error = getattr(data, "result", data)
    return isinstance(error, BackboneError) and error.transient and not error.fatal
