"""What the columns of the warehouse's views mean, for `crosscheck query --schema` and docs/warehouse.md."""

from collections.abc import Mapping

from tasks.scoring.variants import VARIANTS

_QUESTION = {
    "run_id": "the run, as in `runs`",
    "question_id": "id of the question in the benchmark",
}
_VERDICT = {
    "correct": "right under the run's headline rule; NULL: not judged",
    "correct_by_rule": "right by comparison rule: correct_by_rule['strict']",
    "status": "of its execution: ok, error, timeout, too_large, or no_answer without a SQL",
    "error": "the database's message; NULL: none",
    "row_count": "rows that the SQL returned; NULL: it did not finish",
    "gold_rows": "rows that the gold returned; NULL: it did not finish",
    "difference": "how a wrong result differs: missing_rows, extra_columns, ...; empty: right, or nothing to compare",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "run_id": "id of the run",
        "benchmark": "name of the benchmark",
        "revision": "revision of the benchmark's files",
        "backbone": "name of the model's settings; of a scored file, the name of the system",
        "pipeline": "name of the pipeline; predictions for a scored file",
        "rule": "comparison rule of the headline score",
        "status": "running, complete, partial (an error ended asking), interrupted (by the user), failed or killed",
        "started": "when it began, UTC",
        "finished": "when it ended, UTC; NULL: it runs, or was killed",
        "seconds": "wall time of asking and scoring its questions, without the start of the command",
        "questions": "questions that were selected",
        "scored": "questions whose database and gold are there: the denominator of the score",
        "answered": "questions with a SQL",
        "unanswered": "scored questions without a SQL; they count as wrong",
        "retryable": "unanswered questions that crosscheck rerun can answer",
        "correct": "right answers under the headline rule",
        "total": "questions that correct is out of, failed ones included",
        "ex": "execution accuracy, correct / total, 0 to 1",
        "low": "lower bound of Wilson's 95 % interval of ex",
        "high": "upper bound of that interval",
        "calls": "model calls that this run paid for; NULL: unknown, predictions made elsewhere",
        "cached_calls": "model calls that the reply cache answered, or an earlier run; NULL likewise",
        "cost_usd": "US dollars of the paid calls; NULL: unknown, for one without a price too",
        "from_scratch_usd": "US dollars that the same answers cost with an empty reply cache; NULL: unknown",
        "candidates": "candidates per question; NULL: the pipeline's only answer",
        "candidate_curve": "JSON: per k what k candidates are worth and cost; NULL without candidates",
        "golds_sha256": "sha256 of the file of corrected golds; NULL: none was given",
        "mlflow_run_id": "id of the run in MLflow",
        "parent_run_id": "of a re-run: the run whose other answers it keeps",
        "rerolled": "whether a question that had an answer was asked again: not comparable with a single run",
        "sweep": "id of the sweep that it belongs to",
        "name": "the text of --name",
        "note": "the text of --note",
        "changed": "settings that differ from the defaults",
        "settings": "all settings, as JSON",
        "tags": "tags by name: tags['team']",
        "scores": "execution accuracy by rule and by score variant, as JSON",
        "record": "the whole record of the run, as JSON: docs/run-record.schema.json",
        "rows_removed": "when crosscheck clean --rows removed its questions; NULL: they are here",
    },
    "questions": {
        **_QUESTION,
        "position": "place in the benchmark's order, from 0; NULL while the run is not finished",
        "database": "id of its database",
        "difficulty": "as the benchmark grades it",
        "question": "its text",
        "evidence": "the benchmark's hint",
        "sql": "the final SQL; NULL: no answer",
        "gold_sql": "the gold SQL",
        **_VERDICT,
        "gold_status": "of the gold's execution; anything but ok is a fault of the benchmark",
        "seconds": "run time of the final SQL",
        "executable": "whether its database and its gold are there; others are not scored",
        "failure_kind": "why it has no answer: backbone_error, missing_database, internal_error, ...; NULL: it has one",
        "failure": "the message of that failure",
        "correction": "what corrected golds do to the question; NULL: nothing",
        "opinion": "whether a model calls the answer right: no score; NULL: none was asked",
        "opinion_by": "the model of that opinion",
        "opinion_reason": "its reason",
        "attempts": "how often it was taken through the pipeline, by this run and those that it re-ran",
        "notes": "remarks of the pipeline",
    },
    "candidates": {
        **_QUESTION,
        "position": "place among the question's candidates, from 0",
        "stage": "the stage, numbered in the pipeline's order: 1_preliminary_sql",
        "sql": "the SQL that stands after the stage; NULL: none",
        "reached": "whether the question came to this stage",
        **_VERDICT,
        "seconds": "run time of the SQL",
    },
    "stages": {
        **_QUESTION,
        "position": "place among the question's stages, from 0",
        "stage": "name of the stage: forward_link",
        "label": "its name where a pipeline has it more than once: self_correction_sql1",
        "value": "what it returned, as JSON",
        "restored": "whether the result is that of an earlier run, so that no call was made now",
        "seconds": "wall time of the stage when it ran",
        "error": "why it failed; NULL: it did not",
        "notes": "fallbacks, invented names, unreadable replies",
        "replies": "replies that it needed; a repeated request counts once",
        "unreadable": "those that could not be read, even after a second request",
        "fallback": "its fallback, as a clause; empty: none",
        "skipped": "why it did not run; empty: it did",
    },
    "calls": {
        **_QUESTION,
        "position": "place among the calls of the stage, from 0",
        "stage_position": "position of its stage in `stages`",
        "stage": "name of its stage",
        "label": "label of its stage",
        "model": "the model that answered, as the API names it",
        "paid": "made by this run and not answered from the cache",
        "restored": "part of a stage result of an earlier run",
        "cached": "answered from the reply cache",
        "input_tokens": "tokens of the prompt; NULL: the endpoint did not say",
        "cached_input_tokens": "those of them that the endpoint had cached",
        "output_tokens": "tokens of the reply, thoughts included",
        "reasoning_tokens": "those of them that were thoughts",
        "cost_usd": "US dollars that the call cost, 0 if cached; NULL: unknown",
        "cost_source": "where the cost comes from: prices (of the model's settings) or endpoint",
        "from_scratch_usd": "US dollars that a cached reply cost when it was paid; NULL: unknown, or not cached",
        "cache_write_tokens": "tokens of the prompt that the provider wrote to its prompt cache",
        "seconds": "from sending to the full reply, retries included; 0 if cached",
        "retries": "requests beyond the first",
        "parse": "how the reply was read: json, fenced, repaired, text or failed",
        "request": "sha256 of the request, its key in the reply cache",
    },
}
"""Meaning of each column by view, without those of the score variants; NULL means unknown, never 0."""


def meanings(view: str) -> dict[str, str]:
    """Return the meaning of each column of a view."""
    of_variants = {
        "runs": {
            f"ex_{each.name}": f"execution accuracy: {each.title}; NULL: not known"
            for each in VARIANTS.values()
        },
        "questions": {
            f"correct_{each.name}": f"right: {each.title}; NULL: not counted, or not known"
            for each in VARIANTS.values()
        },
    }
    return {**MEANINGS[view], **of_variants.get(view, {})}
