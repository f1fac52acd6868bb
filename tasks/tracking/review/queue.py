"""A review queue of golds in MLflow: one trace per question, on which reviewers leave a verdict and a reason.

MLflow has review queues from 3.14 on. Its page "Review" shows the traces of a queue with the form for the verdict.
"""

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tasks.core.errors import ConfigurationError
from tasks.tracking.mlflow.experiment import experiment_name, open_experiment
from tasks.tracking.mlflow.store import Store

SCHEMA = "verdict"
"""Name of the label schema, and of the assessments that reviewers leave."""
PROPOSED = "proposed_sql"
"""Attribute of a trace that has the proposed SQL."""
VERDICTS = {
    "keep": "the gold is right",
    "replace": "the gold is wrong, the proposed SQL is right",
    "add": "the gold and the proposed SQL are right",
    "withdraw": "the question has no single right answer",
}
"""What a reviewer can say of a gold."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A question to review."""

    question_id: str
    # what the reviewer sees, in Markdown: the question; the gold and the proposed SQL, with their results, and why
    question: str
    answers: str
    sql: str  # the proposed SQL


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one reviewer says of one gold."""

    question_id: str
    reviewer: str
    verdict: str  # a key of VERDICTS
    reason: str = ""
    date: str = ""  # ISO date
    sqls: tuple[str, ...] = ()  # the SQL that is right, for "replace" and "add"


def send_to_queue(
    store: Store,
    benchmark: str,
    name: str,
    items: Sequence[ReviewItem],
    progress: Callable[[str], None],
) -> int:
    """Put questions into a queue, which is created if there is none; return how many are new in it.

    A question that the queue has is not put in again.

    Raises:
        ConfigurationError: MLflow is too old, or refuses.
    """
    with _queues(store) as mlflow:
        from mlflow.genai import label_schemas, review_queues

        client = store.client()
        experiment = open_experiment(client, benchmark, store.artifacts)
        known = {each.name: each for each in label_schemas.list_label_schemas(experiment_id=experiment)}
        schema = known.get(SCHEMA) or label_schemas.create_label_schema(
            SCHEMA,
            type="feedback",
            input=label_schemas.InputCategorical(options=list(VERDICTS)),
            instruction="; ".join(f"{word}: {text}" for word, text in VERDICTS.items())
            + ". Say why in the rationale.",
            enable_comment=True,
            experiment_id=experiment,
        )
        queues = {each.name: each for each in review_queues.list_review_queues(experiment_id=experiment)}
        queue = queues.get(name) or review_queues.create_review_queue(
            name, queue_type="custom", schema_ids=[schema.schema_id], experiment_id=experiment
        )
        present = {trace.info.tags.get("question_id") for trace in _traces(client, queue.queue_id)}
        new = [item for item in items if item.question_id not in present]
        ids = []
        for place, item in enumerate(new, start=1):
            span = client.start_trace(
                f"gold of question {item.question_id}",
                inputs=_message("user", item.question),
                attributes={PROPOSED: item.sql},
                tags={"question_id": item.question_id},
                experiment_id=experiment,
            )
            client.end_trace(span.request_id, outputs=_message("assistant", item.answers))
            ids.append(span.request_id)
            progress(f"Sent {place:,} of {len(new):,} questions to MLflow's queue {name}")
        mlflow.flush_trace_async_logging()
        if ids:
            review_queues.add_items_to_review_queue(queue.queue_id, item_ids=ids)
        return len(ids)


def _message(role: str, text: str) -> dict[str, Any]:
    """Return a text as a message of a conversation, which MLflow's page renders as Markdown."""
    return {"messages": [{"role": role, "content": text}]}


def read_queue(store: Store, benchmark: str, name: str) -> tuple[Verdict, ...]:
    """Return the verdicts in a queue, of each reviewer and question the latest.

    Raises:
        ConfigurationError: MLflow is too old, or has no such queue.
    """
    with _queues(store):
        from mlflow.genai import review_queues

        client = store.client()
        found = client.get_experiment_by_name(experiment_name(benchmark))
        queues = (
            {each.name: each for each in review_queues.list_review_queues(experiment_id=found.experiment_id)}
            if found
            else {}
        )
        if name not in queues:
            listed = f" There are: {', '.join(queues)}." if queues else ""
            raise ConfigurationError(
                f'MLflow has no review queue "{name}" for {benchmark}.{listed} "crosscheck golds suggest RUN RUN '
                f'--queue {name}" makes it.'
            )
        traces = _traces(client, queues[name].queue_id)
        latest: dict[tuple[str, str], Verdict] = {}
        for trace in traces:
            sql = str(trace.data.spans[0].get_attribute(PROPOSED) or "") if trace.data.spans else ""
            given = [each for each in trace.info.assessments if each.name == SCHEMA and each.feedback]
            for each in sorted(given, key=lambda each: each.last_update_time_ms or 0):
                verdict = _verdict(trace.info.tags["question_id"], each, sql)
                latest[verdict.question_id, verdict.reviewer] = verdict
        return tuple(latest.values())


def _verdict(question_id: str, assessment: Any, sql: str) -> Verdict:
    moment = datetime.datetime.fromtimestamp((assessment.last_update_time_ms or 0) / 1000, datetime.UTC)
    word = str(assessment.feedback.value)
    return Verdict(
        question_id,
        assessment.source.source_id,
        word,
        assessment.rationale or "",
        f"{moment:%Y-%m-%d}",
        (sql,) if sql and word in ("replace", "add") else (),
    )


def _traces(client: Any, queue_id: str) -> list[Any]:
    from mlflow.genai import review_queues

    items, token = [], None
    while True:
        page = review_queues.list_review_queue_items(queue_id, page_token=token)
        items += page
        token = page.token
        if not token:
            return [client.get_trace(item.item_id) for item in items]


@contextmanager
def _queues(store: Store) -> Iterator[Any]:
    """Use MLflow's review queues of a store; its functions know the store as that of the process only."""
    store.client()
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        from mlflow.genai import review_queues  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            f"MLflow {mlflow.__version__} has no review queues: install 3.14 or later, or review with --html and "
            "--draft."
        ) from None
    # set_tracking_uri also sets this variable, by which other parts of the process would find another store
    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(store.uri)
    try:
        yield mlflow
    except MlflowException as error:
        raise ConfigurationError(f"MLflow refused the review queue: {str(error).splitlines()[0]}") from None
    finally:
        mlflow.set_tracking_uri(before)  # type: ignore[arg-type]  # None unsets both
