"""DAC's stages for the golden prompts: grounded demonstrations, an alignment, every kind of feedback."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tasks.core.records import (
    ColumnName,
    Demonstration,
    Entities,
    Feedback,
    Question,
    RevisionRequest,
    Sample,
)
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration, ground
from tasks.settings.pipeline import DacSettings, PromptSettings
from tasks.stages.dac import dac_correction, initial_sql, skeleton_parsing
from tasks.stages.dac_entities import AlignedItem, entity_linking, resolve_given
from tests.support.stage_bench import PLAIN, QUESTION, Bench

ZOO = Schema(
    "zoo",
    (
        Table("zoo", (Column("id", "INTEGER"), Column("city", "TEXT")), ("id",)),
        Table("animal", (Column("name", "TEXT"), Column("zoo id", "INTEGER"))),
    ),
    (ForeignKey("animal", ("zoo id",), "zoo", ("id",)),),
    dialect="sqlite",
)
GROUNDED: tuple[GroundedDemonstration, ...] = ground(
    (
        Demonstration(
            "How many zoos are in Ghent?", "SELECT COUNT(*) FROM zoo WHERE city = 'Ghent'", "zoo", "zoos"
        ),
        Demonstration(
            "Name the animals of Lyon.",
            "SELECT T1.name FROM animal AS T1 JOIN zoo AS T2 ON T1.`zoo id` = T2.id WHERE T2.city = 'Lyon'",
            "zoo",
        ),
        Demonstration("Who painted it?", "SELECT painter FROM painting", "lost"),
    ),
    {"zoo": ZOO},
)
DDL = DacSettings().prompt
COMMENT = PromptSettings()
SQL = "SELECT name FROM museum"
MENTIONED = (
    AlignedItem.model_validate(("museums", "museum", "tbl")),
    AlignedItem.model_validate(("Lyon", "museum.city", "val")),
    AlignedItem.model_validate(("sold", "order.total.eur", "col")),
)
Case = Callable[[Bench], Awaitable[object]]


def first(
    prompt: PromptSettings = DDL,
    *,
    question: Question = QUESTION,
    demonstrations: tuple[GroundedDemonstration, ...] = GROUNDED,
    descriptions: bool = False,
) -> Case:
    return lambda bench: initial_sql(
        question,
        SchemaView(bench.schema, prompt, descriptions=descriptions),
        demonstrations,
        Sample(),
        bench.backbone,
    )


def linking(
    prompt: PromptSettings = DDL,
    *,
    question: Question = QUESTION,
    demonstrations: tuple[GroundedDemonstration, ...] = GROUNDED,
    sql: str | None = SQL,
) -> Case:
    return lambda bench: entity_linking(
        question, SchemaView(bench.schema, prompt), demonstrations, sql, "all", bench.backbone
    )


def correction(
    feedback: Feedback,
    *,
    prompt: PromptSettings = DDL,
    sql: str | None = SQL,
    aligned: bool = True,
    strict: bool = False,
    demonstrations: tuple[GroundedDemonstration, ...] = (),
) -> Case:
    def case(bench: Bench) -> Awaitable[object]:
        tokens = resolve_given(QUESTION.text, MENTIONED, bench.schema, bench.schema).tokens
        return dac_correction(
            QUESTION,
            SchemaView(bench.schema, prompt, descriptions=True),
            RevisionRequest(sql, feedback, tokens if aligned else (), strict=strict),
            demonstrations,
            bench.runner,
            bench.backbone,
        )

    return case


MISSING = Entities(
    ("museum", "order", "guide"), (ColumnName("museum", "city"), ColumnName("order", "total.eur"))
)
DAC_CASES: dict[str, Case] = {
    "initial_sql.full": first(),
    "initial_sql.comment_format": first(COMMENT, descriptions=True),
    "initial_sql.no_demonstrations": first(question=PLAIN, demonstrations=()),
    "entity_linking.full": linking(),
    "entity_linking.comment_format": linking(COMMENT),
    "entity_linking.no_sql": linking(question=PLAIN, demonstrations=(), sql=None),
    "entity_linking.question_only": linking(
        question=replace(QUESTION, evidence=""),
        demonstrations=tuple(replace(d, evidence="") for d in GROUNDED),
    ),
    "skeleton_parsing.full": lambda bench: skeleton_parsing(QUESTION, "sqlite", GROUNDED, bench.backbone),
    "skeleton_parsing.question_only": lambda bench: skeleton_parsing(
        replace(QUESTION, evidence=""),
        "sqlite",
        tuple(replace(d, evidence="") for d in GROUNDED),
        bench.backbone,
    ),
    "dac_correction.execution": correction(
        Feedback("execution", error="Error: no such column: nam"), sql="SELECT nam FROM museum", aligned=False
    ),
    "dac_correction.no_sql": correction(
        Feedback("execution", error="There is no query."), sql=None, aligned=False
    ),
    "dac_correction.entities": correction(Feedback("entities", missing=MISSING)),
    "dac_correction.skeleton": correction(
        Feedback("skeleton", skeleton="select distinct _ from _ join _ where _ = _"), prompt=COMMENT
    ),
    "dac_correction.strict_entities": correction(Feedback("entities", missing=MISSING), strict=True),
    "dac_correction.strict_skeleton": correction(
        Feedback("skeleton", skeleton="select distinct _ from _"), strict=True, demonstrations=GROUNDED[:2]
    ),
}
