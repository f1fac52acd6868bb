"""The estimate of a sweep knows in which form a model is asked to answer."""

from pathlib import Path

from flows.runtime.control import NullProgress
from flows.sweep.estimate import ASSUMED_REASONING, estimate
from flows.sweep.plan import Cell
from tasks.settings.assemble import EvaluationChoice, evaluation_settings


def cell(home: Path, *overrides: str) -> Cell:
    choice = EvaluationChoice(
        benchmark="demo", backbone="vllm", pipeline="few-shot", overrides=overrides, home=str(home), limit=2
    )
    return Cell(evaluation_settings(choice))


async def test_reply_formats_change_the_estimate_of_input_and_output(tmp_path: Path) -> None:
    cells = [
        cell(tmp_path),
        cell(tmp_path, "backbone.reply=json_with_reasoning"),
        cell(tmp_path, "backbone.reply=fenced"),
        cell(
            tmp_path,
            "backbone.reply=fenced",
            "backbone.reply_by_stage={initial_sql: json, preliminary_sql: json}",
        ),
    ]
    plain, reasoning, fenced, by_stage = await estimate(cells, NullProgress())
    assert [one.calls for one in (plain, reasoning, fenced, by_stage)] == [2, 2, 2, 2]
    assert plain.input_tokens and reasoning.input_tokens and fenced.input_tokens and plain.output_tokens
    assert reasoning.input_tokens > plain.input_tokens
    assert fenced.input_tokens != plain.input_tokens
    assert reasoning.output_tokens == fenced.output_tokens == plain.output_tokens + 2 * ASSUMED_REASONING
    assert by_stage == plain
