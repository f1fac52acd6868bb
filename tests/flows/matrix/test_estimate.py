"""The estimate of a sweep knows in which form a model is asked to answer."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from flows.evaluate.estimate import ASSUMED_REASONING
from flows.evaluate.preparation import check_budget, selecting_calls
from flows.matrix.matrix import Cell, estimate_cells
from flows.runtime.control import Progress
from tasks.core.errors import ConfigurationError
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice


def cell(home: Path, *overrides: str, backbone: str = "vllm", pipeline: str = "few-shot") -> Cell:
    choice = EvaluationChoice(
        benchmark="demo", backbone=backbone, pipeline=pipeline, overrides=overrides, home=str(home), limit=2
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
    plain, reasoning, fenced, by_stage = await estimate_cells(cells, Progress())
    assert [one.calls for one in (plain, reasoning, fenced, by_stage)] == [2, 2, 2, 2]
    assert plain.input_tokens and reasoning.input_tokens and fenced.input_tokens and plain.output_tokens
    assert reasoning.input_tokens > plain.input_tokens
    assert fenced.input_tokens != plain.input_tokens
    assert reasoning.output_tokens == fenced.output_tokens == plain.output_tokens + 2 * ASSUMED_REASONING
    assert by_stage == plain


async def test_an_estimate_has_the_price_of_the_tier(tmp_path: Path) -> None:
    full, half = "{input: 2, output: 4, as_of: 2026-11-01, flex: {input: 1, output: 2}}", "backbone.tier=flex"
    cells = [cell(tmp_path, f"backbone.prices={full}", *more) for more in ((), (half,))]
    standard, flex = await estimate_cells(cells, Progress())
    assert standard.cost_usd and flex.cost_usd == pytest.approx(standard.cost_usd / 2)


async def test_every_candidate_is_estimated_at_the_price_of_its_backbone(tmp_path: Path) -> None:
    for name, price in (("cheap", 1.0), ("dear", 3.0)):
        (tmp_path / f"{name}.yaml").write_text(
            f"model: {name}\nprices: {{input: {price}, output: {price}, as_of: 2026-11-01}}\n"
        )
    cheap, dear = (f"[{tmp_path / name}.yaml]" for name in ("cheap", "dear"))
    both = f"[{tmp_path / 'cheap'}.yaml, {tmp_path / 'dear'}.yaml]"
    warm, four = "pipeline.candidates.temperature=0.8", "pipeline.candidates.n=4"
    cells = [
        cell(tmp_path),
        cell(tmp_path, warm, four),
        *(
            cell(tmp_path, warm, four, f"pipeline.candidates.backbones={each}")
            for each in (cheap, dear, both)
        ),
    ]
    one, own, in_cheap, in_dear, in_both = await estimate_cells(cells, Progress())
    assert one.calls == 2 and own.calls == in_both.calls == 8
    assert one.input_tokens and own.input_tokens == 4 * one.input_tokens
    assert in_cheap.cost_usd and in_dear.cost_usd == pytest.approx(3 * in_cheap.cost_usd)
    assert in_both.cost_usd == pytest.approx(2 * in_cheap.cost_usd)
    assert own.cost_usd is None, "vllm has no price"
    assert [selecting_calls(each.settings) for each in cells] == [0] * 5
    pairwise = cell(tmp_path, warm, four, "pipeline.candidates.select=pairwise")
    assert selecting_calls(pairwise.settings) == 12


@pytest.mark.parametrize("enabled", [True, False])
def test_an_eliminator_makes_a_cell_cost_something_only_where_it_is_asked(
    tmp_path: Path, enabled: bool
) -> None:
    switched = f"pipeline.bias_elimination.enabled={str(enabled).lower()}"
    chosen = ("pipeline.eliminator=eliminator", switched)
    one = cell(tmp_path, *chosen, backbone="offline", pipeline="sea-sql")
    assert one.free is not enabled
    with pytest.raises(ConfigurationError, match="eliminator") if enabled else nullcontext():
        check_budget([one.settings], 1.0)
