"""Runs the probes of an endpoint, and one question of the demo in each reply format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flows.answer.answering import AnswerRequest, answer_one
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.backbone.check.endpoint import Endpoint
from tasks.backbone.check.probes import Probes
from tasks.backbone.check.report import EndpointReport
from tasks.core.errors import CrosscheckError
from tasks.settings.assemble import EvaluationChoice, evaluation_settings
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.stages.replies import LinkReply, SqlReply

FORMATS = ("json", "json_with_reasoning", "fenced")
"""Reply formats, in the order in which one is preferred if several can be read."""
DEMO_TOKENS = 512
"""Limit of the reply to the question of the demo."""
REPLY_TYPES: Mapping[str, type[BaseModel]] = {"preliminary_sql": SqlReply, "forward_link": LinkReply}
"""Types of replies that the response modes are probed with: a query, and lists of names."""


@dataclass(frozen=True)
class Checked:
    """The findings about an endpoint, and the settings of a backbone file that follow; {} if it cannot be used."""

    report: EndpointReport
    settings: dict[str, Any]

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return self.report.model_dump(mode="json") | {"settings": self.settings}


async def check(settings: BackboneSettings, folders: Folders, parallel: int, progress: Progress) -> Checked:
    """Probe the endpoint of a backbone.

    Replies of the probes are not cached. Replies to the question of the demo are.

    Raises:
        ConfigurationError: the base URL is not valid, or a key is missing.
    """
    async with Endpoint(settings) as endpoint:
        probes = Probes(endpoint, progress.step)
        report = await probes.run(REPLY_TYPES, parallel)
        readable = await _readable_formats(settings, folders, report, progress) if report.usable else []
        await probes.finish()
    reply = readable[0] if readable else settings.reply
    return Checked(report, report.settings(settings, reply) if report.usable else {})


async def _readable_formats(
    settings: BackboneSettings,
    folders: Folders,
    report: EndpointReport,
    progress: Progress,
) -> Sequence[str]:
    """Answer the first question of the demo in each reply format; return those whose reply can be read."""
    demo = evaluation_settings(
        EvaluationChoice(
            benchmark="demo",
            backbone="offline",
            pipeline="zero-shot",
            home=str(folders.home.path),
            data=str(folders.data),
        )
    )
    benchmark = folders.benchmark(demo.benchmark, progress)
    question = benchmark.questions[0]
    request = AnswerRequest(
        question.text, question.evidence, str(benchmark.location(question.database_id).path), rows=1
    )
    found, readable = report.settings(settings), []
    for name in FORMATS:
        progress.step(f"a question of the demo, reply format {name}")
        backbone = _of_one_question(settings, found, name)
        why = await _why_unreadable(demo.model_copy(update={"backbone": backbone}), request, progress)
        report.add(f"reply: {name}", not why, why)
        if not why:
            readable.append(name)
    return readable


def _of_one_question(settings: BackboneSettings, found: dict[str, Any], reply: str) -> BackboneSettings:
    """Return the settings that were found for one question: it is sent once, and an unreadable reply is a result."""
    update = {name: value for name, value in found.items() if name != "prices"}
    for name in found.keys() & {"max_tokens", "max_completion_tokens"}:
        update[name] = min(found[name], DEMO_TOKENS)
    update |= {"reply": reply, "retries": 0, "unreadable_limit": 0}
    return settings.model_copy(update=update | {"timeout_s": max(settings.timeout_s, found["timeout_s"])})


async def _why_unreadable(settings: EvaluationSettings, request: AnswerRequest, progress: Progress) -> str:
    """Return why the reply to a question could not be read; "" if it could."""
    try:
        answered = await answer_one(settings, request, progress)
    except CrosscheckError as error:
        return " ".join(str(error).split())
    if failure := answered.outcome.failure:
        return failure.message
    if any(stage.unreadable for stage in answered.outcome.stages):
        return "the reply could not be read"
    return "" if answered.outcome.sql else "the reply held no SQL"


def backbone_of_url(url: str, model: str | None, key: str | None, name: str) -> BackboneSettings:
    """Return the settings of an endpoint that is named by its URL."""
    return BackboneSettings(
        name=name,
        base_url=url,
        model=model or "",
        api_key_env=key,
        seed=0,
        max_tokens=2048,
        timeout_s=120.0,
    )


def yaml_of(settings: dict[str, Any], command: str) -> str:
    """Return the settings as the text of a backbone file, with the command that found them."""
    import yaml

    return f"# Found by: {command}\n" + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def name_of(file: Path | None) -> str:
    """Return the name of a backbone by its file."""
    return file.stem if file else "checked"
