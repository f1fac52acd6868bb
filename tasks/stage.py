"""The one door to Prefect: turns a plain async function into a cached, retryable task.

    @stage(prompts=("forward_link",))
    async def forward_link(question: Question, schema: Schema, ..., backbone: MeteredBackbone) -> Link: ...

A pipeline awaits `forward_link(...)` and gets a `Link`. In between, for each call:

1. the cache key is computed from all arguments (`tasks.cache_key`);
2. a result persisted by an earlier run is restored without a task run (and the trail says so);
3. otherwise the function runs as a Prefect task named `forward_link · superhero · 717`, is retried on transient
   errors only, and its result is persisted under the key.

What happens around a call is decided by the question's `Trail`, which a flow sets for each question.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from tasks.trail import NotCached, NotExecutable, StageStore, Stopped, Trail, current_trail

P = ParamSpec("P")
T = TypeVar("T")

TASK_RETRY_DELAYS_S = (5.0, 30.0)
"""Pauses before a task is tried again; the backbone has already retried each request with back-off of its own."""


class StageCall:
    """One call of a stage, on its way through Prefect.

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
        """Return the stage's coroutine; a repetition keeps the bill of the attempts before it."""
        if self.meter:
            self.meter.again()
        self.started = time.perf_counter()
        return self.function(**self.arguments)

    def result(self, value: Any) -> dict[str, Any]:
        """Return the stage's value and its bill as plain JSON."""
        return {
            "value": to_jsonable_python(value),
            "calls": to_jsonable_python(self.calls),
            "notes": list(self.notes),
            "seconds": round(time.perf_counter() - self.started, 6),
            "made_by": self.mark,
        }

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

    @cached_property
    def _value(self) -> TypeAdapter[T]:
        return TypeAdapter(get_type_hints(self.function)["return"])

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
        return f"{self.name}/{cache_key(self.name, self.version, digest, arguments, attempt)}"

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Restore the stage's result, or run it.

        Raises:
            NotCached: in a trail that restores, when there is no persisted result.
            NotExecutable: the stage executes SQL, and of its database only the schema is at hand.
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
        key, persisted = keys[0], await _first_persisted(store, keys)
        if persisted is not None:
            trail.records.append(_record(self.name, label, persisted, trail, ran=False))
            return self._value.validate_python(persisted["value"])
        if trail.mode == "restore":
            raise NotCached(key)
        if trail.stopped():
            raise Stopped
        call = StageCall(self.function, arguments, trail.mark)
        try:
            if trail.mode == "tasks":
                trail.executed += 1
                name = f"{label} · {trail.question.database_id} · {trail.question.id}"
                task = self._task if store else self._task_anew
                result = await task(label=name, key=key, call=call)
            else:
                result = call.result(await call.begin())
        except Exception as error:
            failed = StageRecord(self.name, label, None, False, call.calls, call.notes, error=str(error))
            trail.records.append(failed)
            raise
        trail.records.append(_record(self.name, label, result, trail, ran=True))
        return self._value.validate_python(result["value"])


def stage(
    *, version: int = 1, prompts: tuple[str, ...] = ()
) -> Callable[[Callable[P, Awaitable[T]]], Stage[P, T]]:
    """Turn a module-level async function into a stage.

    Args:
        version: raise it when the function's code changes what it returns, so that older results are not restored.
        prompts: names of the prompt templates it renders; a change of one has the same effect.

    The function's return type must be one that pydantic can read back from JSON. Its arguments must all have an
    identity (`tasks.cache_key.identity`); one named `backbone` is metered.
    """
    return lambda function: Stage(function, version, prompts)


def _record(name: str, label: str, result: Mapping[str, Any], trail: Trail, *, ran: bool) -> StageRecord:
    calls, notes = _calls.validate_python(result["calls"]), tuple(result["notes"])
    restored = not trail.made(result, ran=ran)
    return StageRecord(name, label, result["value"], restored, calls, notes, seconds=result["seconds"])


async def _first_persisted(store: StageStore | None, keys: Sequence[str]) -> Mapping[str, Any] | None:
    for key in keys if store else ():
        if store and (persisted := await store.read(key)) is not None:
            return persisted
    return None


_calls: TypeAdapter[tuple[Call, ...]] = TypeAdapter(tuple[Call, ...])


def _with_meter(
    arguments: Mapping[str, Any], question: Question, label: str, attempt: int
) -> Mapping[str, Any]:
    backbone = arguments.get("backbone")
    if not isinstance(backbone, MeteredBackbone):
        return arguments
    origin = Origin(question.id, question.database_id, label)
    return {**arguments, "backbone": backbone.fresh(origin, attempt)}


def _require_database(arguments: Mapping[str, Any], label: str) -> None:
    """Let no stage begin that could only fail: one that takes a runner executes SQL."""
    runner = arguments.get("runner")
    if isinstance(runner, DatabaseRunner) and not runner.database.at_hand:
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
