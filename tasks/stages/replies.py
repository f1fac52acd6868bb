"""The JSON replies that stages ask for.

A class's JSON schema, its docstring included, is part of the request, and so of the key that finds a paid reply in the
cache: these docstrings do not change.
"""

import re
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from tasks.backbone.metered import NO_SQL, MeteredBackbone
from tasks.backbone.replies.sql_text import read_sql
from tasks.core.records import Answer
from tasks.core.wording import map_texts


class StageReply(BaseModel):
    r"""A reply whose texts can be written anywhere.

    JSON may spell half of a character (`"\ud83d"`), which can be written neither to a file, nor to SQLite, nor into
    a request.
    """

    @model_validator(mode="before")
    @classmethod
    def _writable(cls, value: Any) -> Any:
        return map_texts(value, lambda text: text.encode("utf-8", "replace").decode())


class SqlReply(StageReply):
    """A query."""

    sql: str


class BetterReply(StageReply):
    """The better of two queries, by its number."""

    better: Literal[1, 2]

    @field_validator("better", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        digits = re.findall(r"\d+", value) if isinstance(value, str) else ()
        return int(digits[0]) if len(digits) == 1 else value


class LinkReply(StageReply):
    """Tables and columns, as the backbone spells them."""

    tables: list[str] = Field(default_factory=list)
    columns: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _names_something(cls, value: Any) -> Any:
        if not value:
            raise ValueError('a link has "tables" or "columns"')
        return value


class KeywordsReply(StageReply):
    """SQL keywords that the question calls for."""

    sql_keywords: list[str]


class ConditionsReply(StageReply):
    """The question, taken apart."""

    conditions: list[str]


class AugmentationReply(StageReply):
    """Tables, columns, SQL keywords and conditions of the question."""

    tables: list[str] = Field(default_factory=list)
    columns: list[str] = Field(default_factory=list)
    sql_keywords: list[str] = Field(default_factory=list)
    conditions: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _names_something(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not cls.model_fields.keys() & value.keys():
            raise ValueError(f"an augmentation has at least one of {', '.join(cls.model_fields)}")
        return value


class DescriptionsReply(StageReply):
    """A sentence for each column of one table; None where the backbone had nothing to say."""

    descriptions: dict[str, str | None]


def sql_answer(reply: SqlReply | None, backbone: MeteredBackbone, otherwise: str = NO_SQL) -> Answer:
    """Return the one statement of a reply; without one, an Answer with a note, and `otherwise` as the fallback."""
    sql = read_sql(reply.sql) if reply else None
    if sql is not None:
        return Answer(sql)
    backbone.fall_back(otherwise)
    if reply is None:
        return Answer(None, "the reply could not be read")
    backbone.count_unusable(f'no SQL in the reply: "{" ".join(reply.sql[:80].split())}"')
    return Answer(None, "the reply held no SQL")
