"""One query in the prompt layout that an open model for Text-to-SQL was trained with.

The order of the parts, their headings and the form of the answer are the published ones; the prose is in our own words:

- "omnisql": OmniSQL (arXiv 2503.02240; the template in RUCKBReasoning/OmniSQL). One message of the user; the evidence
  stands before the question; the query is the last fenced block.
- "arctic": Arctic-Text2SQL-R1 (arXiv 2505.20315; projects/arctic_text2sql_r1/bird_eval/infer.py of
  snowflakedb/ArcticTraining). A message of the system, the same parts, and the query in a fence within <answer>, behind
  <think>. The published code begins the model's answer with "<think>", which chat endpoints do not let a client do.
- "xiyan": XiYanSQL-QwenCoder (XGenerationLab/XiYanSQL-QwenCoder). In Chinese, with M-Schema, the question twice, and
  a fence that the answer continues.
"""

import re

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Role
from tasks.backbone.replies.json_text import fenced
from tasks.backbone.replies.sql_text import last_sql, read_sql, sql_of_fence
from tasks.core.records import Answer, Question
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import NativeLayout
from tasks.stages import prompts
from tasks.stages.stage import stage

_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)
_WITH_SYSTEM = frozenset({"arctic"})
"""Layouts with a message of the system."""


@stage(version=2, prompts=("native_omnisql", "native_arctic", "native_xiyan"))
async def native_sql(
    question: Question, view: SchemaView, layout: NativeLayout, backbone: MeteredBackbone
) -> Answer:
    """Write a SQL in a layout; ask once again where the reply holds none."""
    name = f"native_{layout}"
    roles: tuple[Role, ...] = ("system", "user") if layout in _WITH_SYSTEM else ("user",)
    shown = {"question": question, "dialect": view.dialect_name, "parts": view.render()}
    messages = [Message(role, prompts.render(name, block=role, **shown).rstrip()) for role in roles]
    return await backbone.ask_sql(messages, read_native)


def read_native(text: str) -> str | None:
    r"""Return the query of a reply: the last fence within <answer>, or of the reply; else the last query of the text.

    >>> read_native("First the table.\n```sql\nSELECT a FROM t;\n```")
    'SELECT a FROM t'
    >>> read_native("<answer> It is short: SELECT a FROM t</answer>")
    'SELECT a FROM t'
    >>> read_native("SELECT a FROM t\n```")
    'SELECT a FROM t'
    """
    answers = _ANSWER.findall(text)
    inside = (answers[-1] if answers else text).strip()
    if inside.count("```") == 1 and inside.endswith("```"):  # the reply continues the fence of the prompt
        inside = inside.removesuffix("```")
    for language, content in reversed(fenced(inside)):
        if (sql := sql_of_fence(language, content)) is not None:
            return sql
    return last_sql(inside) or read_sql(inside)
