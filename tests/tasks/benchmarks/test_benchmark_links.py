"""Schema links of other systems, read for every question of a benchmark."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.pairing import LinkNames, read_links
from tasks.core.errors import DataError
from tasks.core.records import Question

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps([LINK]), "has 1 object, but shop-dev has 2 questions"),
        (json.dumps([{"question_id": 7, **LINK}, LINK]), "1 of its 2 objects"),
        (json.dumps([{"question_id": 9, **LINK}]), "9 is no question id of shop-dev"),
        (json.dumps([{"question_id": 7, **LINK}] * 2), "question 7 has a link already"),
        (json.dumps([{"tables": "item", "columns": []}, LINK]), '"tables" must be a list of names'),
        (json.dumps([{"tables": []}, LINK]), '"columns" must be a list'),
        ('{"tables": []', "line 1: not JSON"),
        ('"x"', "line 1: must be an object"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        read(tmp_path, text)
    assert said in str(raised.value)
