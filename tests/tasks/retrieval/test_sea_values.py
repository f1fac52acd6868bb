"""Column values, against a naive reading of the same definition and on the ways in which databases are odd."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from math import log
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks.core.errors import DatabaseUnavailableError, DataError, StoreError
from tasks.core.records import ColumnName, Value
from tasks.database.database import Database, open_database
from tasks.database.sandbox import process
from tasks.retrieval import value_index as values
from tasks.retrieval import value_index_builder as builder
from tasks.retrieval.bridging import (
    LIKENESS,
    BridgedQuestion,
    column_requires,
    comparable,
    required_run,
    required_score,
    without_stop_words,
)
from tasks.retrieval.value_index import DatabaseValues, ValueIndex, numbers
from tests.support.pairs import Pair, read_pairs

ROOT = Path(__file__).parents[3]
Ask = Callable[..., dict[str, tuple[Value, ...]]]
CONTENT = """
CREATE TABLE school (
    id INTEGER PRIMARY KEY, name TEXT, county TEXT, charter, opened INTEGER, score REAL, "free meal" TEXT, photo BLOB
);
INSERT INTO school VALUES
    (1, 'Fresno High', 'Fresno', 'Directly funded', 1990, 5.0, '', x'00ff'),
    (2, 'Lincoln', 'Alameda', 'Locally funded', 1985, 3.5, NULL, NULL),
    (3, 'Lincoln', 'Los Angeles', 7, NULL, 1e999, 'yes', NULL),
    (4, 'fresno high', 'Alameda', NULL, 2001, -2.0, 'no', NULL);
CREATE TABLE "odd ""one" ("a`b" TEXT, word TEXT);
INSERT INTO "odd ""one" VALUES ('x', CAST(x'636166e9' AS TEXT)), ('y', 'Zürich'), ('z', 'R&B');
CREATE TABLE empty (void TEXT);
CREATE VIEW seen AS SELECT name FROM school;
"""


def made(path: Path, script: str) -> Database:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return open_database(path, path.stem)


@pytest.fixture
def school(tmp_path: Path) -> Database:
    return made(tmp_path / "it's a #1 school?.sqlite", CONTENT)


@pytest.fixture
def ask(school: Database, tmp_path: Path) -> Ask:
    index = ValueIndex.open(school, tmp_path / "values")

    def asked(question: str, k: int = 2, **more: int) -> dict[str, tuple[Value, ...]]:
        return {str(name): found for name, found in index.retrieve(question, k, **more).items()}

    return asked


@pytest.mark.parametrize(
    ("question", "k", "values"),
    [
        # what is mentioned comes first
        (
            "How many directly funded schools of Los Angeles are there?",
            2,
            {
                "school.county": ("Los Angeles", "Alameda"),
                "school.charter": ("Directly funded", "Locally funded"),
            },
        ),
        # a number stays a number
        (
            "Which opened in 2001 with -2 or 5 points?",
            2,
            {"school.opened": (2001, 1985), "school.score": (-2.0, 5.0)},
        ),
        # without a mention the most frequent one, and texts before numbers
        ("?", 2, {"school.name": ("Lincoln", "Fresno High"), "school.opened": (1985, 1990)}),
        ("?", 3, {"school.charter": ("Directly funded", "Locally funded", 7)}),
        ("Is it 7?", 1, {"school.charter": (7,)}),
        # odd names and bytes
        (
            'Who sings R&B in "Zurich"?',
            3,
            {'odd "one.word': ("R&B", "Zürich", "caf\\xe9"), 'odd "one.a`b': ("x", "y", "z")},
        ),
        ("Fresno", 0, {}),
    ],
)
def test_the_values_of_a_column_are_what_the_question_mentions_then_the_most_frequent(
    question: str, k: int, values: dict[str, tuple[Value, ...]], ask: Ask
) -> None:
    found = ask(question, k)
    assert {name: found[name] for name in values} == values
    assert k or not found


def test_punctuation_is_shown_last_and_the_most_frequent_number_first(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE t (a, b); INSERT INTO t VALUES ('-', 1), ('-', 9), ('-', 9), ('n/a', 2), ('yes', 0)"
    )
    found = ValueIndex.open(made(tmp_path / "d.sqlite", script), tmp_path).retrieve("?", 3)
    assert list(found.values()) == [("n/a", "yes", "-"), (9, 0, 1)]


def test_stop_words_find_no_values_but_names_and_negations_do(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('a b'), ('in the end'), ('No Colour'), ('US Open')"
    )
    index = ValueIndex.open(made(tmp_path / "d.sqlite", script), tmp_path)

    def best(question: str) -> Value:
        return index.retrieve(question, 1)[ColumnName("t", "a")][0]

    assert best("What is in the bag?") == "No Colour"
    assert best("Who has no hair?") == "No Colour"
    assert best("Who played in the US?") == "US Open"
    assert best("Who played with us?") == "No Colour"


def test_null_empty_infinite_and_binary_values_are_none(
    ask: Ask,
) -> None:
    found = ask("?", 10)
    assert found["school.free meal"] == ("no", "yes")
    assert found["school.score"] == (-2.0, 3.5, 5.0)
    assert "school.photo" not in found and "empty.void" not in found
    assert not any("seen" in name for name in found)


@pytest.mark.parametrize(
    "question", ["", "\x00", 'a "b" AND OR NOT (', "''", "*", "ä" * 500, "\ud83d half", "word " * 3000]
)
def test_no_question_is_too_odd(question: str, ask: Ask) -> None:
    assert len(ask(question)["school.county"]) == 2


def test_long_texts_take_no_place(tmp_path: Path) -> None:
    long, short = "Aa " * 33 + "A", "Aa " * 33
    database = made(
        tmp_path / "d.sqlite",
        f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('{long}'), ('{short}'), ('Zoo')",
    )
    found = ValueIndex.open(database, tmp_path).retrieve("Aa Aa Aa")
    assert found == {ColumnName("t", "a"): (short, "Zoo")}


def test_a_changed_database_is_indexed_anew(tmp_path: Path, school: Database) -> None:
    folder = tmp_path / "values"
    before = ValueIndex.open(school, folder).retrieve("Kern?")
    with closing(sqlite3.connect(school.path)) as connection:
        connection.execute("INSERT INTO school (county) VALUES ('Kern')")
        connection.commit()
    changed = open_database(school.path, "school")
    after = ValueIndex.open(changed, folder).retrieve("Kern?")
    county = ColumnName("school", "county")
    assert (before[county], after[county]) == (("Alameda", "Fresno"), ("Kern", "Alameda"))
    assert DatabaseValues(school, folder).identity != DatabaseValues(changed, folder).identity
    assert len(list(folder.iterdir())) == 2


def test_an_index_is_built_once_and_again_when_it_is_broken(
    tmp_path: Path, school: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    build = builder.build
    monkeypatch.setattr(builder, "build", lambda *given: (said.append("built"), build(*given)))
    path = tmp_path / f"{school.digest}.sqlite"
    for _ in range(2):
        ValueIndex.open(school, tmp_path).close()
    assert len(said) == 1
    path.write_bytes(path.read_bytes()[:5000])
    assert ValueIndex.open(school, tmp_path).retrieve("Fresno")
    path.write_bytes(b"")
    ValueIndex.open(school, tmp_path)
    monkeypatch.setattr(builder, "FORMAT", 99)
    ValueIndex.open(school, tmp_path)
    assert len(said) == 4
    assert [file.name for file in tmp_path.glob("*") if file.name.startswith(".")] == []


def test_the_database_is_not_touched_and_a_folder_that_cannot_be_written_is_the_users_to_mend(
    tmp_path: Path, school: Database
) -> None:
    before = school.path.read_bytes(), school.path.stat().st_mtime_ns
    names = {file.name for file in school.path.parent.iterdir()}
    ValueIndex.open(school, tmp_path / "values")
    assert (school.path.read_bytes(), school.path.stat().st_mtime_ns) == before
    assert {file.name for file in school.path.parent.iterdir()} - names == {"values"}
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Make room there, or do without values"):
        ValueIndex.open(school, tmp_path / "file")


def test_several_processes_and_threads_may_build_at_once(tmp_path: Path, school: Database) -> None:
    code = (
        "import sys; from pathlib import Path; from tasks.database.database import open_database;"
        "from tasks.retrieval.value_index import ValueIndex;"
        "i = ValueIndex.open(open_database(Path(sys.argv[1]), 'school'), Path(sys.argv[2]));"
        "print(sorted(map(str, i.retrieve('Fresno, Lincoln and Alameda?', 3).items())))"
    )
    command = [sys.executable, "-c", code, str(school.path), str(tmp_path / "values")]
    runs = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": str(seed)}
        )
        for seed in range(3)
    ]
    answers = {run.communicate()[0] for run in runs}
    assert len(answers) == 1 and b"Fresno High" in answers.pop()
    source, found = DatabaseValues(school, tmp_path / "threads"), []
    threads = [
        threading.Thread(target=lambda: found.append(source.open().retrieve("Lincoln in Fresno")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == found[:1] * 4


def test_an_index_of_the_old_format_is_replaced(tmp_path: Path, school: Database) -> None:
    path = tmp_path / f"{school.digest}.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE place (id INTEGER PRIMARY KEY, "table", "column", texts INTEGER, words INTEGER, first TEXT);
            CREATE TABLE text (id INTEGER PRIMARY KEY, value TEXT NOT NULL, places BLOB NOT NULL);
            CREATE TABLE run (starts BLOB NOT NULL, characters BLOB NOT NULL);
            CREATE TABLE number (value, place INTEGER, PRIMARY KEY (value, place)) WITHOUT ROWID;
            CREATE VIRTUAL TABLE word USING fts5 (words, content='', detail=none, columnsize=0);
            INSERT INTO run VALUES (x'', x'');
            PRAGMA user_version = 1;
            """
        )
    found = ValueIndex.open(school, tmp_path).retrieve("Los Angeles?")
    assert found[ColumnName("school", "county")] == ("Los Angeles", "Alameda")
    assert [file.name for file in tmp_path.iterdir() if file != school.path] == [path.name]


async def test_damage_that_a_question_meets_has_the_index_built_again(
    tmp_path: Path, school: Database
) -> None:
    source = DatabaseValues(school, tmp_path)
    expected = await source.retrieve("Los Angeles?", 2, 1000)
    path = tmp_path / f"{school.digest}.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    moved = DatabaseValues(school, tmp_path / "elsewhere" / "..")  # no index of it is open yet
    (tmp_path / "elsewhere").mkdir()
    assert await moved.retrieve("Los Angeles?", 2, 1000) == expected
    assert path.read_bytes() != content[:100] + b"\xff" * (len(content) - 100)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE place SET first = '[\"Los'")
    (tmp_path / "beside").mkdir()
    assert (
        await DatabaseValues(school, tmp_path / "beside" / "..").retrieve("Los Angeles?", 2, 1000) == expected
    )


def test_sqlite_without_fts5_is_said(
    tmp_path: Path, school: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Without(sqlite3.Connection):
        def execute(self, sql: str, *more: object) -> sqlite3.Cursor:
            if "fts5" in sql:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(sql, *more)  # type: ignore[arg-type]

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **more, factory=Without))
    with pytest.raises(DataError, match=r"compiled without the full-text index FTS5.*values=rows"):
        ValueIndex.open(school, tmp_path)


def test_hostile_texts_are_left_out_or_read(tmp_path: Path) -> None:
    database = made(
        tmp_path / "d.sqlite",
        """
        CREATE TABLE t (a TEXT COLLATE NOCASE);
        INSERT INTO t VALUES ('a' || char(0) || hex(zeroblob(1000000))), ('b' || char(0) || 'c'), (char(0)),
            (CAST(x'ff20fe' AS TEXT)), ('"quoted"'), ('a* OR NOT'), ('Zoo'), ('zoo');
        """,
    )
    index = ValueIndex.open(database, tmp_path)
    (found,) = index.retrieve("?", 10).values()
    assert found == ('"quoted"', "Zoo", "a* OR NOT", "b\x00c", "zoo", "\\xff \\xfe")
    found = index.retrieve('Is it "quoted", a* OR NOT, or zoos?', 4)[ColumnName("t", "a")]
    assert found == ("a* OR NOT", '"quoted"', "Zoo", "zoo")


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_a_database_may_have_any_encoding(tmp_path: Path, encoding: str) -> None:
    script = (
        f"PRAGMA encoding = '{encoding}'; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('Basel'), ('Zürich')"
    )
    index = ValueIndex.open(made(tmp_path / "d.sqlite", script), tmp_path)
    assert index.retrieve("Is it in Zurich?", 1) == {ColumnName("t", "a"): ("Zürich",)}
    assert index.retrieve("Is it Basels?", 1) == {ColumnName("t", "a"): ("Basel",)}


def test_mentions_are_found_among_many_texts_with_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_MATCHES", 5)
    rows = ", ".join(f"('Écoles of the north {n}')" for n in range(50))
    database = made(
        tmp_path / "schools.sqlite",
        f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES {rows}, ('École of the north')",
    )
    index = ValueIndex.open(database, tmp_path)
    for question in (
        "the école of the north",
        "the École of the north's pupils",
        "any école of the northern",
    ):
        (found,) = index.retrieve(question, 1, 10).values()
        assert found == ("École of the north",), question


TEXTS = st.text("ab AB1'-é.", max_size=8) | st.sampled_from(
    ["the bab", "Bab Aab", "aab's", "yes", "BAB", "bab bab"]
)
COLUMNS = st.lists(st.lists(TEXTS | st.integers(-2, 20) | st.none(), max_size=12), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    COLUMNS, st.lists(TEXTS, max_size=4).map(" ".join), st.integers(1, 4), st.sampled_from([1, 2, 4, 1000])
)
def test_the_index_answers_as_a_naive_search_does(
    tmp_path: Path, columns: Sequence[Sequence[Value | None]], question: str, k: int, top: int
) -> None:
    path = tmp_path / "random.sqlite"
    path.unlink(missing_ok=True)
    names = ["name", "b", "c"][: len(columns)]
    with closing(sqlite3.connect(path)) as connection:
        for name, content in zip(names, columns, strict=True):
            connection.execute(f"CREATE TABLE t_{name} ({name})")
            connection.executemany(f"INSERT INTO t_{name} VALUES (?)", [(value,) for value in content])
        connection.commit()
    index = ValueIndex.open(open_database(path, "random"), tmp_path / "random")
    found = index.retrieve(question, k, max(top, k))
    assert {name.column: chosen for name, chosen in found.items()} == {
        name: expected
        for name, content in zip(names, columns, strict=True)
        if (expected := naive(name, content, question, k, max(top, k)))
    }


def naive(column: str, content: Sequence[Value | None], question: str, k: int, top: int) -> tuple[Value, ...]:
    """The definition, word for word, over a list."""
    texts = sorted({value for value in content if isinstance(value, str) and value})
    said = list(dict.fromkeys(words(without_stop_words(re.sub(r"'\w{1,2}\b", "", question)))))
    scores = bm25({text: words(text) for text in texts}, said)
    best = sorted(texts, key=lambda text: (-round(scores[text], 9), text))[:top]
    asked = BridgedQuestion(question)
    bridges = {text: bridge for text in best if (bridge := asked.bridge(text))}
    kept = {text: b for text, b in bridges.items() if b.score >= column_requires(column)}
    front = sorted(kept, key=lambda text: (-kept[text].score, -kept[text].length, text))
    matching = [text for text in best if scores[text] and text not in kept]
    have = sorted({value for value in content if isinstance(value, int)})
    spoken = [number for number in numbers(question) if number in have]
    frequent = sorted(texts, key=lambda text: (not text.strip(" -.'"), -content.count(text), text))
    most_frequent = sorted(have, key=lambda number: (-content.count(number), number))
    order: list[Value] = [*front, *matching, *spoken, *frequent, *most_frequent]
    return tuple(dict.fromkeys(order))[:k]


def words(text: str) -> list[str]:
    """Pieces between blanks and apostrophes, without accents and full stops at their end: enough for `TEXTS`."""
    pieces = re.split(r"[ ']+", re.sub(r"\. ", " ", text.lower().replace("é", "e") + " "))
    return [piece for piece in pieces if piece]


def bm25(documents: Mapping[str, Sequence[str]], query: Sequence[str]) -> dict[str, float]:
    lengths = {text: 1 + text.count(" ") for text in documents}
    average = sum(lengths.values()) / max(len(documents), 1)
    scores = dict.fromkeys(documents, 0.0)
    for word in query:
        holders = sum(word in document for document in documents.values())
        weight = log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        for text, document in documents.items():
            if word in document:
                scores[text] += weight * 2.5 / (1 + 1.5 * (0.25 + 0.75 * lengths[text] / average))
    return scores


def test_common_words_are_left_out_and_mentions_are_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_MATCHES", 20)
    rows = ", ".join(f"('Bank of number {n}')" for n in range(100))
    database = made(
        tmp_path / "banks.sqlite",
        f"CREATE TABLE t (bank TEXT); INSERT INTO t VALUES {rows}, ('Bank of'), ('Rare bank of sand'), ('Zoo Bank')",
    )
    index = ValueIndex.open(database, tmp_path)
    (found,) = index.retrieve("Is the zoo bank the bank of sand?", 3, 10).values()
    assert found == ("Zoo Bank", "Bank of", "Rare bank of sand")


def test_nearly_every_text_of_superheros_gold_is_among_two_values_per_column(
    shared_data: Path, tmp_path: Path
) -> None:
    path = shared_data / "bird" / "dev_databases" / "superhero" / "superhero.sqlite"
    index = ValueIndex.open(open_database(path, "superhero"), tmp_path)
    questions = json.loads((shared_data / "bird" / "dev.json").read_text(encoding="utf-8"))
    wanted = found = 0
    for question in (one for one in questions if one["db_id"] == "superhero"):
        texts = set(re.findall(r"'([^']+)'", question["SQL"]))
        shown = {value for values in index.retrieve(question["question"]).values() for value in values}
        wanted += len(texts)
        found += len(texts & shown)
    assert (found, wanted) == (119, 127)


def test_a_column_that_computes_huge_values_or_for_hours_fills_and_hangs_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_S", 3.0)
    monkeypatch.setattr(builder, "BUILDING_S", 0.5)
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE t (a); INSERT INTO t VALUES (1); "
            "ALTER TABLE t ADD COLUMN b AS (instr(zeroblob(30000000), zeroblob(15000000) || x'01'))"
        )
    database = open_database(path, "shop", sample_rows=0)
    with pytest.raises(DatabaseUnavailableError, match=r"cannot be read within 0\.5 s"):
        ValueIndex.open(database, tmp_path / "indexes")
    assert list((tmp_path / "indexes").glob("*")) == []


CASES = read_pairs(Path(__file__).parent / "fixtures" / "bridge.txt")
WORDS = st.text("ab é'’-. X1", max_size=12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_question_mentions_a_value(case: Pair) -> None:
    question, value = case.given.split("\n")
    found = BridgedQuestion(question).bridge(value)
    assert (f"{found.score:.2f} over {found.length}" if found else "none") == case.expected


@given(WORDS, WORDS)
@example("", "")
@example("a'", "A")
def test_whatever_is_found_is_as_like_as_it_has_to_be(question: str, value: str) -> None:
    found = BridgedQuestion(question).bridge(value)
    if found:
        assert required_score(value) <= found.score <= 1
        assert required_run(len(comparable(value))) <= found.length <= len(value)


@given(st.text("abcdefgh", min_size=2, max_size=30), st.text("abcdefgh ", max_size=20))
def test_a_value_said_as_words_of_its_own_is_always_found(value: str, around: str) -> None:
    question = BridgedQuestion(f"{around} {value} {around}")
    found = question.bridge(value)
    if value not in ("a", "be", "he", "had", "each"):
        assert found is not None and found.score >= LIKENESS


def test_columns_of_names_want_the_very_name_and_a_long_question_is_no_harder() -> None:
    assert (column_requires("full Name"), column_requires("city")) == (1.0, LIKENESS)
    found = BridgedQuestion("the same words again " * 2000).bridge("the same words again " * 4)
    assert found is not None and found.score == 1
