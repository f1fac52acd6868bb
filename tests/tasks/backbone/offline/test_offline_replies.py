"""Every kind of reply that the pipelines ask for, in the format they ask for."""

import pytest

from tasks.backbone.protocol import Message
from tasks.database.rendering import PromptParts
from tasks.stage_runs import prompts
from tasks.stages.shown_results import ExecutedSql
from tests.tasks.backbone.offline.prompts import PARTS, ask, preliminary, question, rows, sql_for
from tests.tasks.backbone.offline.prompts import messages as rendered

OLDEST = "Which baker is the oldest?"
IN_KETTLE = "What are the names of bakers from Kettle?"


def corrected(text: str, current: ExecutedSql | None) -> tuple[Message, ...]:
    return rendered(
        "self_correction",
        question=question(text),
        dialect="SQLite",
        demonstrations=(),
        parts=PARTS,
        current=current,
    )


def selected(first: ExecutedSql, second: ExecutedSql, text: str = IN_KETTLE) -> str:
    messages = rendered(
        "binary_selection",
        question=question(text),
        dialect="SQLite",
        demonstrations=(),
        parts=PARTS,
        candidates=[first, second],
    )
    return str(ask(messages)["sql"])


def linked(text: str, *, columns: int = 15, hints: tuple[str, ...] = ()) -> dict[str, list[str]]:
    messages = rendered(
        "forward_link",
        question=question(text),
        dialect="SQLite",
        parts=PARTS,
        max_columns_per_table=columns,
        hints=list(hints),
    )
    reply: dict[str, list[str]] = ask(messages)
    return reply


class TestLink:
    def test_names_the_tables_that_only_join_and_the_columns_that_join_them(self) -> None:
        link = linked("What are the names of bakers who were at a fair in 2014?")
        assert link["tables"] == ["baker", "fair", "baker_at_fair"]
        assert {"baker.Name", "fair.Year", "baker_at_fair.Fair_ID", "fair.Fair_ID"} <= set(link["columns"])

    def test_keeps_hints_and_the_limit_per_table(self) -> None:
        assert "market.District" in linked(OLDEST, hints=("market.District",))["columns"]
        few = linked("List the name, home town, age and phone of all bakers.", columns=2)["columns"]
        assert sum(column.startswith("baker.") for column in few) == 2


class TestSelection:
    GOOD = ExecutedSql("SELECT Name FROM baker WHERE `Home Town` = 'Kettle'", "Name\nBen Spelt\nCleo Oat")
    EMPTY = ExecutedSql("SELECT Name FROM baker WHERE Name = 'Kettle'", "No rows.")
    FAILS = ExecutedSql("SELECT Nme FROM baker", "Error: no such column: Nme")
    WIDE = ExecutedSql("SELECT Name, Age FROM baker", "Name | Age\nBen Spelt | 41\nCleo Oat | 29")

    @pytest.mark.parametrize("bad", [EMPTY, FAILS, WIDE])
    def test_a_result_without_surprise_wins_on_either_side(self, bad: ExecutedSql) -> None:
        assert selected(self.GOOD, bad) == self.GOOD.sql
        assert selected(bad, self.GOOD) == self.GOOD.sql

    def test_an_empty_result_is_better_than_a_failure(self) -> None:
        assert selected(self.EMPTY, self.FAILS) == self.EMPTY.sql

    def test_the_second_wins_where_nothing_tells_them_apart(self) -> None:
        first = ExecutedSql("SELECT Name FROM baker LIMIT 2", "Name\nAda Rye\nBen Spelt")
        second = ExecutedSql("SELECT Name FROM baker LIMIT 3", "Name\nAda Rye\nBen Spelt\nCleo Oat")
        assert selected(first, second) == second.sql
        assert selected(second, first) == first.sql

    def test_where_both_fail_a_third_is_written(self) -> None:
        other = ExecutedSql("SELECT Nmae FROM baker", "Error: no such column: Nmae")
        assert rows(selected(self.FAILS, other)) == [("Ben Spelt",), ("Cleo Oat",)]


class TestCorrection:
    def test_never_repeats_what_was_tried_in_a_conversation_while_it_has_ideas(self) -> None:
        text = "What are the names of bakers from Kettle or Sandwich with at least 2 fairs?"
        sql = sql_for(text)
        conversation = corrected(text, ExecutedSql(sql, "No rows."))
        tried = [sql]
        for _ in range(3):
            sql = ask(conversation)["sql"]
            assert sql not in tried
            rows(sql)
            tried.append(sql)
            turn = prompts.render(
                "self_correction",
                "again",
                current=ExecutedSql(sql, "No rows."),
                dialect="SQLite",
                empty_counts=True,
            )
            conversation = (*conversation, Message("assistant", sql), Message("user", turn))

    def test_first_loosens_text_and_then_leaves_conditions_out(self) -> None:
        text = "What are the names of bakers named Spelt?"
        first = sql_for(text)
        assert rows(first) == []
        second = ask(corrected(text, ExecutedSql(first, "No rows.")))["sql"]
        assert rows(second) == [("Ben Spelt",)]

    def test_a_blind_first_turn_is_answered_like_a_first_question(self) -> None:
        assert ask(corrected(OLDEST, None)) == ask(preliminary(OLDEST))

    def test_gives_the_query_back_when_it_has_no_other_idea(self) -> None:
        messages = (
            Message(
                "user", '### SQL 1\nSELECT 1\n\n### Result of SQL 1\nNo rows.\n\n### Reply\nthe key "sql"'
            ),
        )
        assert ask(messages) == {"sql": "SELECT 1"}


def test_keywords_are_those_of_its_own_query() -> None:
    messages = rendered("augmentation_keywords", question=question(OLDEST), dialect="SQLite", parts=PARTS)
    assert ask(messages) == {"sql_keywords": ["SELECT", "ORDER BY", "DESC", "LIMIT"]}


def test_conditions_are_phrases_of_the_question() -> None:
    text = 'Show the names of bakers older than 30 whose home town is "Upper, Kettle".'
    messages = rendered("augmentation_conditions", question=question(text))
    conditions = ask(messages)["conditions"]
    assert any("older than 30" in one for one in conditions)
    assert any("Upper, Kettle" in one for one in conditions)
    assert all(one in text for one in conditions)


def test_every_listed_column_is_described_and_nothing_else() -> None:
    messages = rendered("describe_columns", table="baker", columns=["Home Town", "Age"], parts=PARTS)
    described = ask(messages)["descriptions"]
    assert list(described) == ["Home Town", "Age"]
    assert "Kettle" in described["Home Town"] and "52" in described["Age"]


def test_a_column_with_a_comma_in_its_name_is_one_column() -> None:
    parts = PromptParts("# `t`(`rent, monthly`, `b`)")
    messages = rendered("describe_columns", table="`t`", columns=["`rent, monthly`", "b"], parts=parts)
    assert list(ask(messages)["descriptions"]) == ["rent, monthly", "b"]


def test_linked_columns_decide_between_columns_of_one_name() -> None:
    parts = PromptParts("# `a`(`id`, `price`)\n# `b`(`id`, `price`)")
    for column in ("a.price", "b.price"):
        messages = rendered(
            "augmented_sql",
            demonstrations=(),
            dialect="SQLite",
            parts=parts,
            keywords=[],
            linked_tables=[],
            linked_columns=[column],
            conditions=[],
            question=question("What is the highest price?"),
        )
        assert ask(messages)["sql"] == f"SELECT MAX(price) FROM {column[0]}"
