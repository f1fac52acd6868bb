"""Prompts for the offline model, rendered from the real templates, and a small database to run its answers on."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.protocol import Message, Request
from tasks.core.records import Demonstration, Question
from tasks.database.schema_text import PromptParts
from tasks.stages import prompts

SCHEMA = """# `baker`(`Baker_ID`, `Name`, `Home Town`, `Age`, `Birth_Date`, `phone`)
# `fair`(`Fair_ID`, `Title`, `Year`, `Market_ID`)
# `market`(`Market_ID`, `Market Name`, `District`, `Stalls`, `opened`)
# `baker_at_fair`(`Fair_ID`, `Baker_ID`, `loaves_sold`)"""
SAMPLES = """# baker(Baker_ID: 1 | 2 | 3, Name: 'Ada Rye' | 'Ben Spelt' | 'Cleo Oat', \
`Home Town`: 'Millford' | 'Kettle' | 'Kettle', Age: 52 | 41 | 29, \
Birth_Date: '1972-03-01' | '1983-10-11' | '1995-05-23', phone: '555-1' | NULL | '555-3')
# fair(Fair_ID: 1 | 2 | 3, Title: 'Crumbs' | 'Golden Crust' | 'Winter Loaf', Year: 2014 | 2014 | 2015, \
Market_ID: 1 | 2 | 2)
# market(Market_ID: 1 | 2, `Market Name`: 'Bell''s Yard' | 'Old Quay', District: 'North' | 'Harbour', \
Stalls: 40 | 95, opened: 1890 | 1975)
# baker_at_fair(Fair_ID: 1 | 1 | 2, Baker_ID: 1 | 2 | 2, loaves_sold: 120 | 80 | 200)"""
FOREIGN_KEYS = """# `fair`.`Market_ID` -> `market`.`Market_ID`
# `baker_at_fair`.`Fair_ID` -> `fair`.`Fair_ID`
# `baker_at_fair`.`Baker_ID` -> `baker`.`Baker_ID`"""
PARTS = PromptParts(SCHEMA, SAMPLES, FOREIGN_KEYS, sampled=True)

_DATABASE = """
CREATE TABLE baker (
  Baker_ID INTEGER PRIMARY KEY, Name TEXT, "Home Town" TEXT, Age INTEGER, Birth_Date TEXT, phone TEXT);
CREATE TABLE market (Market_ID INTEGER PRIMARY KEY, "Market Name" TEXT, District TEXT, Stalls INTEGER, opened INTEGER);
CREATE TABLE fair (Fair_ID INTEGER PRIMARY KEY, Title TEXT, Year INTEGER, Market_ID INTEGER);
CREATE TABLE baker_at_fair (Fair_ID INTEGER, Baker_ID INTEGER, loaves_sold INTEGER);
INSERT INTO baker VALUES (1, 'Ada Rye', 'Millford', 52, '1972-03-01', '555-1'),
  (2, 'Ben Spelt', 'Kettle', 41, '1983-10-11', NULL), (3, 'Cleo Oat', 'Kettle', 29, '1995-05-23', '555-3'),
  (4, 'Dora Barley', 'Sandwich', 35, '1989-01-30', '555-4');
INSERT INTO market VALUES (1, 'Bell''s Yard', 'North', 40, 1890), (2, 'Old Quay', 'Harbour', 95, 1975);
INSERT INTO fair VALUES (1, 'Crumbs', 2014, 1), (2, 'Golden Crust', 2014, 2), (3, 'Winter Loaf', 2015, 2);
INSERT INTO baker_at_fair VALUES (1, 1, 120), (1, 2, 80), (2, 2, 200), (3, 2, 60), (3, 3, 90);
"""


def messages(name: str, /, **variables: Any) -> tuple[Message, ...]:
    """Return the messages of a template, in which what is not given is empty or off."""
    off = {
        "demonstrations": (), "examples": (), "keywords": (), "conditions": (), "hints": (),
        "demonstrations_first": False, "empty_counts": True, "strict": False, "rules": "all",
    }  # fmt: skip
    return prompts.messages(name, **{**off, **variables})


def ask(messages: Sequence[Message]) -> Any:
    """Return the offline model's parsed reply."""
    return json.loads(asyncio.run(OfflineBackbone().complete(Request(tuple(messages)))).text)


def question(text: str, evidence: str = "") -> Question:
    """Return a question as the templates take it."""
    return Question("1", text, "bakers", evidence)


def preliminary(
    text: str, evidence: str = "", *, demonstrations: Sequence[Demonstration] = (), parts: PromptParts = PARTS
) -> tuple[Message, ...]:
    """Return the messages of the first stage."""
    return messages(
        "preliminary_sql",
        demonstrations=demonstrations,
        dialect="SQLite",
        parts=parts,
        linked_tables=[],
        linked_columns=[],
        question=question(text, evidence),
    )


def sql_for(text: str, evidence: str = "", *, demonstrations: Sequence[Demonstration] = ()) -> str:
    """Return the SQL that the offline model writes for a question."""
    return str(ask(preliminary(text, evidence, demonstrations=demonstrations))["sql"])


def rows(sql: str) -> list[tuple[Any, ...]]:
    """Run a query on the database that the prompts show."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_DATABASE)
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
