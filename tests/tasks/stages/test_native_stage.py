"""The layouts of open models: their settings, and how their replies are read."""

import pytest

from tasks.core.errors import ConfigurationError
from tasks.settings.home import find_conf
from tasks.settings.load import load_pipeline_settings
from tasks.stages.native_sql import read_native
from tests.support.native_prompts import native
from tests.support.stage_bench import Bench


@pytest.mark.parametrize(("reply", "sql"), [
    ("Steps.\n```sql\nSELECT 1\n```\nNo: \n```sql\nSELECT a FROM t;\n```", "SELECT a FROM t"),
    ("<answer> in short\n\n```sql\nSELECT a FROM t\n```\n</answer>", "SELECT a FROM t"),
    ("```sql\nSELECT 0\n```\n<answer>SELECT a FROM t</answer>", "SELECT a FROM t"),
    ("<answer>\n```sql\nSELECT a FROM t", "SELECT a FROM t"),
    ("SELECT a\nFROM t;\n```", "SELECT a\nFROM t"),
    ('{"sql": "SELECT a FROM t"}', "SELECT a FROM t"),
    ("I cannot tell.", None),
    ("", None),
])  # fmt: skip
def test_a_reply_is_read_in_every_form_that_the_layouts_ask_for(reply: str, sql: str | None) -> None:
    assert read_native(reply) == sql


async def test_thoughts_are_not_the_answer_and_a_reply_without_sql_is_asked_for_again(bench: Bench) -> None:
    bench.says(
        "<think>```sql\nSELECT 0\n```</think> hm", "<think>so</think><answer>SELECT name FROM museum</answer>"
    )
    answer = await bench.run(native("arctic")(bench))
    assert answer.sql == "SELECT name FROM museum"
    assert len(bench.conversations) == 2
    assert [message["role"] for message in bench.conversations[-1]] == ["system", "user"]


def test_a_layout_brings_its_schema_format_unless_one_is_named() -> None:
    def shown(*overrides: str) -> str:
        return load_pipeline_settings(find_conf(), "native", overrides).prompt.schema_format

    assert (shown(), shown("pipeline.prompt.layout=arctic")) == ("omnisql", "omnisql")
    assert shown("pipeline.prompt.layout=xiyan") == "m_schema"
    assert shown("pipeline.prompt.layout=xiyan", "pipeline.prompt.schema_format=comment") == "comment"
    stored = load_pipeline_settings(find_conf(), "native", ("pipeline.prompt.layout=xiyan",))
    assert type(stored).model_validate_json(stored.model_dump_json()) == stored


def test_demonstrations_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="less than or equal to 0, not 3"):
        load_pipeline_settings(find_conf(), "native", ("pipeline.demonstrations.k=3",))
