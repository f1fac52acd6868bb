"""Files of predictions and links: which column is the SQL, what belongs to which question, what is remarked on."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tasks.benchmarks.benchmark import Benchmark, load_benchmark
from tasks.benchmarks.predictions.formats import ReadingOptions, read_predictions
from tasks.benchmarks.predictions.pairing import LinkNames, Predictions, pair, read_links
from tasks.core.errors import DataError
from tasks.core.records import Question
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings

MARK = "\t----- bird -----\t"
Paired = Callable[..., Predictions]


def question(key: int | str, sql: str = "", name: str = "question_id") -> dict[str, Any]:
    return {name: key, "db_id": "shop", "question": "How many?", "SQL": sql or f"SELECT {key}"}


@pytest.fixture
def paired(bird: Any, tmp_path: Path) -> Paired:
    """Pair predictions with the benchmark as it is then: by default, questions 7 and 9 on one database."""

    def run(content: Any, name: str = "p.json", rule: str = "bird", **reading: Any) -> Predictions:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return pair(read_predictions(path, ReadingOptions(**reading)), bird.load(rule=rule))

    return run


def test_two_columns_that_may_hold_the_sql_are_refused_with_their_names(paired: Paired) -> None:
    text = "question_id,query,generated_sql\n7,SELECT 1,SELECT 2\n"
    with pytest.raises(DataError, match=r'"query", "generated_sql".*--sql-column'):
        paired(text, "p.csv")
    assert paired(text, "p.csv", sql_column="generated_sql").sqls == {"7": "SELECT 2"}
    assert paired(text, "p.csv", sql_column="QUERY").sqls == {"7": "SELECT 1"}


@pytest.mark.parametrize(
    "header",
    ["question_id,PREDICTED SQL", "instance_id,sql", "id,generated_sql", "question_id,gold_sql,sql",
     "question_id,query,predicted_sql"],
)  # fmt: skip
def test_one_column_is_the_sql(paired: Paired, header: str) -> None:
    cells = ["7", *["SELECT 0"] * (header.count(",") - 1), "SELECT 2"]
    assert paired(f"{header}\n{','.join(cells)}\n", "p.csv").sqls == {"7": "SELECT 2"}


def test_all_that_is_missing_is_said_at_once(paired: Paired) -> None:
    with pytest.raises(DataError, match=r"no question id .* and no SQL .*--by-position.*--sql-column"):
        paired("number,answer\n7,SELECT 1\n", "p.csv")
    with pytest.raises(DataError, match=r"no answers; it has question_id"):
        paired("question_id,answer\n7,SELECT 1\n", "p.csv", sql_column="answers")


def test_by_position_a_list_without_ids_is_paired_in_its_order(paired: Paired) -> None:
    rows = [{"answer": "SELECT 1"}, {"answer": "SELECT 2"}]
    found = paired(rows, sql_column="answer", by_position=True)
    assert found.sqls == {"7": "SELECT 1", "9": "SELECT 2"}
    with pytest.raises(DataError, match=r"1 prediction, but own has 2 questions.*hand in a part"):
        paired(rows[:1], sql_column="answer", by_position=True)
    assert paired({"1": "SELECT 2", "0": "SELECT 1"}, by_position=True).sqls["9"] == "SELECT 2"


def test_keys_that_are_positions_are_taken_as_such_with_a_note(paired: Paired) -> None:
    found = paired({"0": f"SELECT 1{MARK}shop", "1": f"SELECT 2{MARK}shop"})
    assert found.sqls == {"7": "SELECT 1", "9": "SELECT 2"}
    assert "positions from 0" in found.notes[0]
    with pytest.raises(DataError, match="none of its ids is"):
        paired({"0": f"SELECT 1{MARK}shop", "1": f"SELECT 2{MARK}elsewhere"})


def test_mini_dev_s_outputs_by_position_fit_the_real_questions(shared_data: Path, tmp_path: Path) -> None:
    changes = ["benchmark.databases=.", 'benchmark.tables=""']
    settings = load_benchmark_settings(find_conf(), "bird-mini-dev", changes)
    benchmark = load_benchmark(settings, data=shared_data, home=tmp_path, conf=find_conf())
    assert len({question.id for question in benchmark.questions}) == 500
    assert "137-2, 138-2" in benchmark.notes[0]
    keyed = {str(n): f"SELECT {n}{MARK}{q.database_id}" for n, q in enumerate(benchmark.questions)}
    path = tmp_path / "predict_mini_dev.json"
    path.write_text(json.dumps(keyed), encoding="utf-8")
    found = pair(read_predictions(path), benchmark)
    assert found.sqls[benchmark.questions[42].id] == "SELECT 42"
    assert "positions from 0" in found.notes[0]


def test_fences_and_database_names_are_said_and_taken_out_on_request(paired: Paired) -> None:
    sqls = {"7": "```sql\nSELECT 1\n```", "9": "shop | SELECT 2"}
    found = paired(sqls)
    assert found.sqls == sqls
    assert [("--unwrap takes it out" in note, note[:8]) for note in found.notes] == [(True, "1 of 2 p")] * 2
    assert paired(sqls, unwrap=True).sqls == {"7": "SELECT 1", "9": "SELECT 2"}


def test_under_spider_2s_rule_fences_are_taken_out_as_its_evaluator_does(paired: Paired) -> None:
    found = paired({"7": "```sql\nSELECT 1\n```"}, rule="subset")
    assert found.sqls == {"7": "SELECT 1"}
    assert "was taken out (as Spider 2.0's evaluator does)" in found.notes[0]


def test_predictions_of_other_questions_or_positions_are_remarked_on(bird: Any, paired: Paired) -> None:
    gold = [f"SELECT column_{n} FROM table_{n} WHERE other_{n} = {n}" for n in range(8)]
    bird.write("dev.json", [question(10 + n, gold[n]) for n in range(8)])

    def notes(ids: Sequence[int], sqls: Sequence[str], **reading: Any) -> str:
        rows = [{"question_id": id_, "sql": f"{sql} LIMIT 1"} for id_, sql in zip(ids, sqls, strict=True)]
        return " ".join(paired(rows, **reading).notes)

    ids = [10 + n for n in range(8)]
    assert notes(ids, gold) == notes(ids, gold, by_position=True) == ""
    assert "Paired by question id, they share 79%" in notes(ids[::-1], gold[::-1], by_position=True)
    assert "--by-position reads them so" in notes(ids[::-1], gold)


def test_predictions_that_are_the_gold_are_remarked_on(bird: Any, paired: Paired) -> None:
    bird.write("dev.json", [question(n) for n in range(10)])
    for right, noted in ((6, 0), (7, 1)):
        predicted = {n: f"SELECT {n if n < right else -n}" for n in range(10)}
        assert len(paired(predicted).notes) == noted


@pytest.mark.parametrize("added", [{"output": "SELECT -1"}, {}], ids=["a name without sql", "nothing"])
@pytest.mark.parametrize("count", [4, 10])
def test_the_golds_own_column_is_refused_with_the_names_of_the_others(
    bird: Any, paired: Paired, count: int, added: dict[str, str]
) -> None:
    questions = [question(n) for n in range(count)]
    bird.write("dev.json", questions)
    records = [each | added for each in questions]
    with pytest.raises(DataError, match=r'"SQL" holds the gold SQL') as refused:
        paired(records)
    assert '"question"' in str(refused.value) and ("output" in str(refused.value)) is bool(added)
    copies = paired(records, sql_column="SQL").copies_gold
    assert copies is (count >= 5), "named on purpose: read, and not ranked"


@pytest.mark.parametrize(("added", "column"), [
    ({"predictions": ["SELECT -1", "SELECT -2"]}, "predictions.0"),
    ({"candidates": [{"sql": "SELECT -1"}]}, "candidates.0.sql"),
    ({"messages": [{"role": "assistant", "content": "SELECT -1"}]}, "messages.0.content"),
])  # fmt: skip
def test_answers_in_a_list_are_columns_too(
    bird: Any, paired: Paired, added: dict[str, Any], column: str
) -> None:
    bird.write("dev.json", [question(n) for n in range(4)])
    records = [{"question_id": n, "SQL": f"SELECT {n}"} | added for n in range(4)]
    with pytest.raises(DataError, match=rf'"SQL" holds the gold SQL.*"{column}"'):
        paired(records)
    assert set(paired(records, sql_column=column).sqls.values()) == {"SELECT -1"}


def test_the_gold_is_recognized_in_another_spelling_and_where_a_part_was_corrected(
    bird: Any, paired: Paired
) -> None:
    bird.write("dev.json", [question(n) for n in range(4)])
    golds = ["select 0", "SELECT\n1", "Select  2", "SELECT 33"]
    with pytest.raises(DataError, match="holds the gold SQL of 3 of 4"):
        paired([{"question_id": n, "SQL": sql, "output": "SELECT 1"} for n, sql in enumerate(golds)])


@pytest.mark.parametrize("asked", [None, "predictions.m.predicted_sql"])
def test_a_nested_column_is_read(bird: Any, paired: Paired, asked: str | None) -> None:
    bird.write("dev.json", [question(n) for n in range(1, 5)])
    records = [question(n) | {"predictions": {"m": {"predicted_sql": f"SELECT {-n}"}}} for n in range(1, 5)]
    assert paired(records, sql_column=asked).sqls == {str(n): f"SELECT {-n}" for n in range(1, 5)}


@pytest.mark.parametrize("name", ["question_id", "instance_id", "id", "ID", "Question ID", "Instance-Id"])
def test_questions_and_predictions_name_their_ids_alike(bird: Any, paired: Paired, name: str) -> None:
    bird.write("dev.json", [question(f"a{n}", f"SELECT {n}", name) for n in range(3)])
    records = [{name: f"a{n}", "predicted_sql": f"SELECT {-n}"} for n in range(3)]
    assert paired(records).sqls == {f"a{n}": f"SELECT {-n}" for n in range(3)}


@pytest.mark.parametrize("name", ["p.json", "p.jsonl", "p.txt"])
def test_one_object_is_one_prediction_whatever_the_name_of_the_file(paired: Paired, name: str) -> None:
    assert paired('{"question_id": 7, "sql": "SELECT 1"}\n', name).sqls == {"7": "SELECT 1"}


@pytest.mark.parametrize(
    "start", ["SELECT question_id, 1", "select a, question_id, b", "(WITH x AS (SELECT 1,", ""]
)
def test_sql_that_reads_a_column_of_ids_is_not_the_header_of_a_table(tmp_path: Path, start: str) -> None:
    content = f"{start or 'question_id,sql'}\n7,SELECT 2\n"
    (tmp_path / "p.txt").write_text(content, encoding="utf-8")
    assert read_predictions(tmp_path / "p.txt").format == ("lines" if start else "csv")


def test_a_folder_has_a_file_of_sql_per_question(tmp_path: Path) -> None:
    folder = tmp_path / "submission"
    folder.mkdir()
    (folder / "local001.csv").write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"no file <question id>\.sql\. Its CSV files are results"):
        read_predictions(folder)
    (folder / "local002.sql").write_text("SELECT 1\n", encoding="utf-8")
    (folder / "local001.sql").write_text(" ", encoding="utf-8")
    read = [(entry.question_id, entry.sql) for entry in read_predictions(folder).entries]
    assert read == [("local001", None), ("local002", "SELECT 1")]


@pytest.mark.parametrize("content", ["[" * 20_000, '{"0": ' * 20_000, '{"0": ' + "9" * 5000 + "}"])
@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_json_that_python_cannot_read_is_named(paired: Paired, name: str, content: str) -> None:
    with pytest.raises(DataError, match=name):
        paired(content, name)


BENCHMARK = cast(
    "Benchmark",
    SimpleNamespace(
        settings=SimpleNamespace(name="shop-dev"),
        questions=tuple(Question(name, "how many?", "shop") for name in ("7", "8")),
    ),
)
LINK = {"tables": ["item"], "columns": ["item.`name`"]}
NAMES = LinkNames(("item",), ("item.`name`",))


def read(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "links"
    file.write_text(text, encoding="utf-8")
    return read_links(file, BENCHMARK)


def test_a_list_without_ids_is_in_the_order_of_the_questions(tmp_path: Path) -> None:
    empty = {"tables": [], "columns": []}
    assert read(tmp_path, json.dumps([LINK, empty])) == {"7": NAMES, "8": LinkNames((), ())}


@pytest.mark.parametrize("name", ["question_id", "instance_id", "id"])
def test_an_id_counts_under_any_name_that_predictions_may_give_it(tmp_path: Path, name: str) -> None:
    empty = {"tables": [], "columns": []}
    links = read(tmp_path, json.dumps([{name: 8.0, **LINK}, {name: " 7", **empty}]))
    assert links == {"8": NAMES, "7": LinkNames((), ())}


def test_json_lines_with_ids_may_leave_questions_out(tmp_path: Path) -> None:
    assert read(tmp_path, "\n" + json.dumps({"question_id": 8, **LINK}) + "\n\n") == {"8": NAMES}


@pytest.mark.parametrize(("text", "said"), [
    (json.dumps([LINK]), "has 1 object, but shop-dev has 2 questions"),
    (json.dumps([{"question_id": 7, **LINK}, LINK]), "1 of its 2 objects"),
    (json.dumps([{"question_id": 9, **LINK}]), "9 is no question id of shop-dev"),
    (json.dumps([{"question_id": 7, **LINK}] * 2), "question 7 has a link already"),
    (json.dumps([{"tables": "item", "columns": []}, LINK]), '"tables" must be a list of names'),
    (json.dumps([{"tables": []}, LINK]), '"columns" must be a list'),
    ('{"tables": []', "line 1: not JSON"),
    ('"x"', "line 1: must be an object"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        read(tmp_path, text)
    assert said in str(raised.value)
