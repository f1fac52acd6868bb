"""`crosscheck golds import`: people's verdicts, from files and from MLflow's review queue, as an answer key."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_process import run
from tests.support.scored_home import OTHER, scored_home

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, built_demo: Path) -> Path:
    """A working folder with runs of two backbones that agree against the gold on the questions 1 and 2."""
    return scored_home(tmp_path_factory.mktemp("court"), built_demo, {"a": "12", "b": "12"})


@pytest.fixture(autouse=True)
def in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))


def csv(file: Path, *rows: str) -> Path:
    file.write_text(
        "\n".join(["question_id,reviewer,verdict,reason,date,sql", *rows]) + "\n", encoding="utf-8"
    )
    return file


def imported(output: Path, *words: str) -> dict[str, Any]:
    ran = run("golds", "import", *words, "--output", str(output), "--json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.json
    return found


def test_verdicts_become_a_key_with_names_dates_and_reasons_and_scores_before_and_after(
    tmp_path: Path,
) -> None:
    ann = csv(
        tmp_path / "ann.csv",
        f'1,Ann,replace,Wrong year.,2026-11-20,"{OTHER}"',
        "3,Ann,keep,,2026-11-20,",
        "4,Ann,withdraw,No single answer.,2026-11-20,",
        "5,Ann,withdraw,Vague.,2026-11-20,",
    )
    bob = csv(
        tmp_path / "bob.csv",
        f'1,Bob,replace,Wrong year,2026-11-21,"{OTHER}"',
        "3,Bob,keep,,2026-11-21,",
        "4,Bob,withdraw,Ambiguous.,2026-11-21,",
        "5,Bob,keep,,2026-11-21,",
    )
    key = tmp_path / "reviewed.json"
    found = imported(key, str(ann), str(bob), "--run", "latest")
    assert found["actions"] == {"replace": 1, "withdraw": 1, "undecided": 1} and found["kept"] == ["3"]
    one = json.loads(key.read_text(encoding="utf-8"))["corrections"][0]
    assert one == {
        "question_id": "1", "action": "replace", "sql": [OTHER], "source": "Ann (2026-11-20), Bob (2026-11-21)",
        "reason": "Ann: replace, Wrong year.; Bob: replace, Wrong year",
    }  # fmt: skip
    # observed 3/4, by chance (1 + 1 x 2 + 2 x 1) / 16 of replace, keep and withdraw
    assert found["agreement"]["statistic"] == "Cohen's kappa"
    assert found["agreement"]["kappa"] == pytest.approx((3 / 4 - 5 / 16) / (1 - 5 / 16))
    (scores,) = found["scores"]
    assert (scores["before"]["correct"], scores["before"]["total"]) == (8, 10)
    assert (scores["after"]["correct"], scores["after"]["total"]) == (8, 9)
    assert run("verify-gold", "--key", str(key)).code == 0
    ann_decides = imported(tmp_path / "ann.json", str(ann), str(bob), "--decides", "Ann")
    assert ann_decides["actions"] == {"replace": 1, "withdraw": 2}


def test_what_people_say_in_mlflows_queue_comes_back_as_a_key(
    home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    filled = run("golds", "suggest", "latest~1", "latest", "--queue", "court")
    assert filled.code == 0 and "review queue court: 2" in filled.out, filled.err
    assert "review queue court: 0" in run("golds", "suggest", "latest~1", "latest", "--queue", "court").out
    assert "MLFLOW_TRACKING_URI" not in os.environ, "the store of the queue stayed that of the process"
    questions = json.loads((home / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8"))
    golds = {str(each["question_id"]): each for each in questions}
    mlflow.set_tracking_uri(f"sqlite:///{home}/mlflow.db")
    request.addfinalizer(lambda: mlflow.set_tracking_uri(None))
    client = mlflow.MlflowClient()
    experiment = client.search_experiments(filter_string="name LIKE '%demo%'")[0]
    traces = client.search_traces(locations=[experiment.experiment_id])
    by_id = {trace.info.tags["question_id"]: trace for trace in traces if "question_id" in trace.info.tags}
    span = by_id["1"].data.spans[0]
    (asked,), (answers,) = span.inputs["messages"], span.outputs["messages"]
    assert golds["1"]["question"] in asked["content"] and "Gold" not in asked["content"]
    assert (
        "**Gold** (" in answers["content"]
        and f"**Proposed** (1 row)\n\n```sql\n{OTHER}\n```" in answers["content"]
    )
    for name, word in (("1", "replace"), ("2", "keep")):
        for reviewer in ("Ann", "Bob", "Cid"):
            mlflow.log_feedback(
                trace_id=by_id[name].info.trace_id, name="verdict", value=word, rationale=f"{reviewer}'s reason",
                source=AssessmentSource("HUMAN", reviewer),
            )  # fmt: skip
    found = imported(tmp_path / "court.json", "--queue", "court")
    assert found["agreement"]["statistic"] == "Fleiss' kappa" and found["agreement"]["kappa"] == 1.0
    (entry,) = found["corrections"]
    assert (entry["question_id"], entry["action"], entry["sql"]) == ("1", "replace", [OTHER])
    assert "Cid: replace, Cid's reason" in entry["reason"] and found["kept"] == ["2"]
    missing = run("golds", "import", "--queue", "nobody", "--output", str(tmp_path / "x.json"))
    assert missing.code == 2 and 'has no review queue "nobody"' in missing.err and "court" in missing.err


@pytest.mark.parametrize(
    ("rows", "words", "said"),
    [
        (["999,Ann,keep,,,"], (), "question 999, Ann: the benchmark has no such question"),
        (["1,Ann,erase,r,,"], (), '"erase" is no verdict'),
        (["1,,keep,,,"], (), "the reviewer is missing"),
        (["1,Ann,replace,r,,"], (), '"replace" needs the SQL'),
        (["1,Ann,withdraw,,,"], (), "the reason is missing"),
        (["1,Ann,keep,,24.11.,"], (), "is not written as 2026-11-24"),
        (["1,Ann,keep,,,", "1,Ann,keep,,,"], (), "another verdict of this reviewer"),
        (["1,Ann,keep,,,"], ("--decides", "Zoe"), 'no verdict is from "Zoe"'),
        ([], (), "there is none"),
    ],
)
def test_wrong_verdicts_are_one_message_and_nothing_is_written(
    tmp_path: Path, rows: list[str], words: tuple[str, ...], said: str
) -> None:
    output = tmp_path / "key.json"
    ran = run("golds", "import", str(csv(tmp_path / "v.csv", *rows)), "--output", str(output), *words)
    assert ran.code == 2 and said in ran.err and "Traceback" not in ran.err, ran.err
    assert not output.exists()


def test_without_verdicts_or_over_a_file_nothing_is_written(tmp_path: Path) -> None:
    there = csv(tmp_path / "there.csv", "1,Ann,keep,,,")
    assert "Name files with verdicts" in run("golds", "import", "--output", str(tmp_path / "k.json")).err
    assert "is there already" in run("golds", "import", str(there), "--output", str(there)).err
