"""Reading the database out of a prompt: all three formats say the same."""

import sqlite3
from pathlib import Path

import pytest

from tasks.backbone.offline.prompt.english import likeness, split_identifier, stem, tokenize
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.prompt.schema_text import read_schema
from tasks.database.rendering import render
from tasks.database.schema import Column, ForeignKey, Schema, Table

SCHEMA = Schema(
    "odd",
    (
        Table(
            "order",
            (
                Column("group by", "TEXT", "what it is grouped by", "A | B", ("it's", None, "a | b, 'c'")),
                Column("a.b", "INTEGER", samples=(1, 2, None)),
                Column("Percent (%)", "REAL", samples=(0.5, 1e20, -3)),
            ),
            ("group by", "a.b"),
        ),
        Table(
            'it\'s "so" `far`',
            (Column("x`y", "TEXT", samples=("né", "two\nlines")), Column("from", "INTEGER")),
        ),
    ),
    (ForeignKey('it\'s "so" `far`', ("x`y", "from"), "order", ("group by", "a.b")),),
    dialect="sqlite",
)


def read(style: str) -> PromptSchema:
    parts = render(SCHEMA, style, sample_rows=3, foreign_keys=True, descriptions=True)  # type: ignore[arg-type]
    return read_schema(parts.schema, parts.samples, parts.foreign_keys, dialect="sqlite")


@pytest.mark.parametrize("style", ["comment", "create_table", "m_schema"])
def test_names_keys_and_samples_survive_every_format(style: str) -> None:
    schema = read(style)
    assert [table.name for table in schema.tables] == [table.name for table in SCHEMA.tables]
    assert [str(column.name) for column in schema.columns] == [str(name) for name in SCHEMA.column_names]
    assert [(r.child.column, r.parent.column) for r in schema.references] == [
        ("x`y", "group by"),
        ("from", "a.b"),
    ]
    assert schema.columns[0].samples == ("it's", "a | b, 'c'")
    assert [column.kind for column in schema.columns[:3]] == ["text", "number", "number"]


def test_a_schema_of_no_known_format_has_no_tables() -> None:
    assert read_schema("the usual tables, you know", dialect="sqlite").tables == ()


def test_every_shared_spider_schema_is_read_whole(shared_data: Path) -> None:
    for path in sorted((shared_data / "spider" / "database").glob("*/*.sqlite"))[:40]:
        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        tables = tuple(
            Table(
                name,
                tuple(Column(row[1], row[2]) for row in connection.execute(f'PRAGMA table_info("{name}")')),
            )
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        )
        connection.close()
        real = Schema(path.stem, tables, dialect="sqlite")
        for style in ("comment", "create_table", "m_schema"):
            parts = render(real, style, sample_rows=0, foreign_keys=False, descriptions=False)  # type: ignore[arg-type]
            read_back = read_schema(parts.schema, dialect="sqlite")
            assert tuple(column.name for column in read_back.columns) == real.column_names, (path.stem, style)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SongReleaseYear", ("song", "release", "year")),
        ("emp_fname", ("employee", "first", "name")),
        ("LName", ("last", "name")),
        ("clubname", ("club", "name")),
        ("E-Mail", ("email",)),
        ("dept_no", ("department", "number")),
        ("Größe", ("größe",)),
    ],
)
def test_identifiers_split_into_words(name: str, words: tuple[str, ...]) -> None:
    assert split_identifier(name) == words


def test_words_of_one_meaning_are_alike_and_others_are_not() -> None:
    assert likeness(stem("countries"), stem("country")) == 1.0
    assert likeness(stem("nations"), stem("nationality")) > 0.5
    assert likeness(stem("people"), stem("person")) == 1.0
    assert likeness(stem("name"), stem("number")) == 0.0


def test_tokens_keep_quotes_numbers_and_dates_in_one_piece() -> None:
    tokens = tokenize(
        "Which of Ada's 1,200 'Old Quay' loaves of QM-261 weren't sold on 2023-12-24 or 2019-09-04?"
    )
    assert [token.text for token in tokens if token.kind == "quoted"] == [
        "Old Quay",
        "2023-12-24",
        "2019-09-04",
    ]
    assert [token.text for token in tokens if token.kind == "number"] == ["1200"]
    assert {"QM-261", "not", "'s"} <= {token.text for token in tokens}
