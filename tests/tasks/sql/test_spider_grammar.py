"""What the official Spider parser reads, and what it does not."""

import pytest

from tasks.database.schema import Column, Schema, Table
from tasks.sql.spider_match import read_query

SCHEMA = Schema(
    "d",
    (
        Table("Pet", (Column("id"), Column("name"), Column("age"))),
        Table("Owner", (Column("pet"), Column("town"))),
    ),
    dialect="sqlite",
)
READ = (
    "SELECT * FROM pet",
    "SELECT count(DISTINCT name) ,  max(age) FROM Pet WHERE name = 'it is; (odd)' OR age > = 3;",
    "SELECT T1.name FROM Pet AS T1 JOIN owner AS T2 ON T1.id = T2.pet AND T1.age = T2.town",
    'SELECT name FROM pet WHERE id NOT IN (SELECT pet FROM owner WHERE town LIKE "%a%") ORDER BY age DESC LIMIT 3',
    "SELECT town , count(*) FROM owner GROUP BY town HAVING count(*) BETWEEN 1 AND 3",
    "SELECT name FROM pet EXCEPT SELECT T1.name FROM pet AS T1 JOIN owner AS T2 ON T1.id = T2.pet",
    "SELECT age - id FROM pet",
    "SELECT count(*) FROM (SELECT name FROM pet)",
)
UNREAD = (
    "SELECT T1.name FROM Pet AS T1 INNER JOIN owner AS T2 ON T1.id = T2.pet",
    "SELECT T1.name FROM Pet T1",
    "SELECT name FROM Pet WHERE age <> 3",
    "SELECT `name` FROM pet",
    'SELECT "name" FROM pet',
    "SELECT size FROM pet",
    "SELECT T1.size FROM pet AS T1",
    "SELECT name FROM nothing",
    "SELECT length(name) FROM pet",
    "SELECT max(age) - min(age) FROM pet",
    "SELECT name FROM pet WHERE name = 'open",
    "SELECT name FROM pet WHERE age=3",  # nltk does not split at "="
    "SELECT count(*) AS pets FROM pet",
    "SELECT name",
    "",
)


@pytest.mark.parametrize("sql", READ)
def test_its_own_grammar_is_read(sql: str) -> None:
    assert read_query(sql, SCHEMA)


@pytest.mark.parametrize("sql", UNREAD)
def test_what_is_outside_of_its_grammar_is_not(sql: str) -> None:
    assert read_query(sql, SCHEMA) is None
