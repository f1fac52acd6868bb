"""Stages: plain async functions that run as cached, retried Prefect tasks.

    @stage(prompts=("forward_link",))
    async def forward_link(question: Question, view: SchemaView, ..., backbone: MeteredBackbone) -> Link: ...

A pipeline awaits `forward_link(...)` and gets a `Link`. For each call:

1. the cache key is computed from all arguments, the stage's code and its prompts (`tasks.stage_runs.cache_key`);
2. a result persisted by an earlier run is restored without a task run (and its record is marked as restored);
3. otherwise the function runs in a task run of Prefect's named `forward_link · superhero · 717`, or
   `forward_link · 12 questions` if several calls share one (`flows.orchestration.stage_task_runs`); it is retried on
   transient errors only, and its result is persisted under the key before it is used.

What happens around a call is decided by the question's `QuestionRun`, which a flow sets for each question.
"""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

from pydantic import TypeAdapter

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Origin
from tasks.core.outcome import StageRecord
from tasks.core.records import Question
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.settings.kinds import STAGES
from tasks.stage_runs import prompts
from tasks.stage_runs.cache_key import cache_key
from tasks.stage_runs.question_run import NotCached, NotExecutable, StageStore, Stopped, current_question_run
from tasks.stage_runs.stage_call import CallSite, StageCall, StageResult

P = ParamSpec("P")
T = TypeVar("T")


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

    def key(self, arguments: Mapping[str, Any], attempt: int = 0) -> str:
        """Return where the result of a call with these arguments is persisted: `stage/sha256`."""
        digest = prompts.digest(*self.prompt_names) if self.prompt_names else ""
        return f"{self.name}/{cache_key(self._key_name, self._code, digest, arguments, attempt)}"

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Restore the stage's result, or run it.

        Raises:
            NotCached: when the question run only restores and there is no persisted result.
            NotExecutable: the stage executes SQL, and of its database only the schema is known.
            Stopped: when the evaluation is being stopped.
            BackboneError: when the backbone gave no answer even after retries.
            StoreError: when a result can be neither read nor persisted.
        """
        question_run = current_question_run()
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        label = question_run.label(self.name)
        attempts, store = question_run.attempts, None if question_run.ignore_cache else question_run.store
        _require_database(bound.arguments, label)
        arguments = _with_meter(bound.arguments, question_run.question, label, attempts[0])
        keys = [self.key(arguments, attempt) for attempt in attempts]
        plain = await _first_persisted(store, keys)
        ran = plain is None
        if plain is None:
            if question_run.only_restores:
                raise NotCached(keys[0])
            if question_run.stopped():
                raise Stopped
            place = CallSite(self.name, label, question_run.question, question_run.owner, keys[0])
            call = StageCall(self.function, arguments, place)
            try:
                plain = await call.run(question_run.task_runs)
            except Exception as error:
                failed = StageRecord(self.name, label, None, False, call.calls, call.notes, error=str(error))
                question_run.records.append(failed)
                raise
        result = self._results.validate_python(plain)
        # Every question is first restored as far as it goes, so each restored result is counted once.
        if question_run.only_restores and isinstance(backbone := arguments.get("backbone"), MeteredBackbone):
            backbone.count_restored(result.calls)
        question_run.records.append(
            StageRecord(
                self.name,
                label,
                plain["value"],
                restored=not question_run.count_own(keys[0], plain, ran=ran),
                calls=result.calls,
                notes=result.notes,
                seconds=result.seconds,
                replies=result.replies,
                unreadable=result.unreadable,
                fallback=result.fallback,
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
    identity (`tasks.stage_runs.cache_key.identity`); one named `backbone` is metered.
    """
    return lambda function: Stage(function, version, prompts)


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
