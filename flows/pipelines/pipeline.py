"""A pipeline: a function that takes a question through stages, and the model of its settings.

    class VoteSettings(PipelineSettings):
        votes: int = 3

    @pipeline(VoteSettings)
    async def vote(question: Question, context: Context[VoteSettings]) -> str | None: ...

Pipelines of this package have a name. One in a file of a user's own is named `path/to/file.py:vote`, one of an
installed package as its entry point in the group `crosscheck.pipelines`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic

from flows.pipelines.context import Context, S
from tasks.core.records import Question
from tasks.settings.kinds import PIPELINES
from tasks.settings.pipeline import PipelineSettings

Function = Callable[[Question, Context[S]], Awaitable[str | None]]
"""Takes a question and its context and returns the final SQL; None when there is none."""


@dataclass(frozen=True)
class Pipeline(Generic[S]):
    """A pipeline."""

    answer: Function[S]  # takes a question through the stages
    settings: type[S]  # the model of its settings

    def __call__(self, question: Question, context: Context[S]) -> Awaitable[str | None]:
        """Answer a question, for pipelines that are made of others."""
        return self.answer(question, context)


def pipeline(settings: type[S], *, name: str | None = None) -> Callable[[Function[S]], Pipeline[S]]:
    """Return a decorator that makes a pipeline of a function.

    Args:
        settings: the model of its settings.
        name: what `kind:` in a file of settings calls it; None for one in a user's file or package.
    """

    def decorate(function: Function[S]) -> Pipeline[S]:
        made = Pipeline(function, settings)
        return PIPELINES.register(name)(made) if name else made

    return decorate


def pipeline_of(settings: PipelineSettings) -> Pipeline[Any]:
    """Return the pipeline that is configured by these settings.

    Raises:
        ConfigurationError: there is none.
    """
    found: Pipeline[Any] = PIPELINES.get(settings.kind)
    return found
