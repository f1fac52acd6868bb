"""Preparation: files are read as they are when it is called, and where demonstrations come from."""

import json
import sys
from pathlib import Path

import pytest

from flows.evaluate.demonstration_search import DemonstrationSearch, QuestionExtras, with_retriever
from flows.evaluate.preparation import prepare
from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import load_benchmark
from tasks.core.errors import DataError
from tasks.retrieval.alignment import COVERED
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.home import find_conf
from tests.support.own_benchmark import OwnBenchmark


def chosen(home: Path, data: Path, pipeline: str, *overrides: str) -> tuple[list[QuestionExtras], str]:
    """Return what the first questions of the demo are shown, and the sentences for the summary."""
    names = {"benchmark": "demo", "backbone": "offline", "pipeline": pipeline}
    where = {"data": str(data), "home": str(home)}
    settings = evaluation_settings(EvaluationChoice(**names, **where, overrides=overrides))
    benchmark = load_benchmark(settings.benchmark, data=data, home=home, conf=find_conf())
    search = DemonstrationSearch(benchmark, settings, Progress())
    return list(search.choose(benchmark.questions[:5]).values()), search.note


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_entity_linking_is_shown_covered_questions_of_spider_where_its_files_are(
    home: Path, shared_data: Path
) -> None:
    extras, notes = chosen(home, shared_data, "dac")
    assert "Entity linking is shown training questions of Spider: " in notes
    for each in extras:
        assert len(each.aligned) == len(each.grounded) == 5
        assert all(one.coverage >= COVERED for one in each.aligned)
        assert not {one.question for one in each.aligned} & {one.question for one in each.grounded}


@pytest.mark.parametrize("overrides", [(), ("pipeline.dac.alignments=benchmark",)])
def test_else_it_is_shown_those_of_the_benchmark(
    home: Path, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    extras, notes = chosen(home, tmp_path, "dac", *overrides)
    assert "Spider" not in notes
    assert all(len(each.aligned) == 5 and each.aligned[0].database is not None for each in extras)
    coverage = [[one.coverage >= COVERED for one in each.aligned] for each in extras]
    assert all(covered == sorted(covered, reverse=True) for covered in coverage)


def test_bm25_stands_in_for_an_encoder_that_is_not_on_disk_and_the_summary_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr("tasks.retrieval.encoder_files.PACKAGES", {})
    extras, notes = chosen(
        home, tmp_path, "rsl-sql-acl", "pipeline.demonstrations.encoder=nobody/no-encoder-here"
    )
    assert "BM25 stands in for nobody/no-encoder-here" in notes
    by_words, _ = chosen(home, tmp_path, "rsl-sql-acl", "pipeline.demonstrations.retriever=bm25")
    assert [each.demonstrations for each in extras] == [each.demonstrations for each in by_words]
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    _, notes = chosen(home, tmp_path, "rsl-sql-acl")
    assert (
        'sentence-transformers is not installed. Install it: pip install "crosscheck-sql[embedding]"' in notes
    )


@pytest.mark.parametrize(("found", "retriever", "says"), [
    ("BAAI/bge-large-en-v1.5", "embedding", "Demonstrations: by BAAI/bge-large-en-v1.5."),
    ("other/encoder", "embedding", "other/encoder stands in for BAAI/bge-large-en-v1.5"),
    (None, "bm25", "BM25 stands in for BAAI/bge-large-en-v1.5"),
])  # fmt: skip
def test_the_settings_of_the_run_have_the_retriever_that_auto_is(
    found: str | None, retriever: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.retrieval.encoder_files.available_encoder", lambda name: found)
    names = {"benchmark": "demo", "backbone": "offline", "pipeline": "rsl-sql-acl"}
    settings = evaluation_settings(EvaluationChoice(**names))
    chosen, note = with_retriever(settings)
    assert chosen.pipeline.demonstrations.retriever == retriever
    assert chosen.pipeline.demonstrations.encoder == (found or settings.pipeline.demonstrations.encoder)
    assert says in note
    assert with_retriever(chosen) == (chosen, "")


def test_no_more_demonstrations_are_chosen_than_there_are(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(Progress, "step", lambda progress, text: steps.append(text))
    extras, _ = chosen(home, tmp_path, "few-shot", "pipeline.demonstrations.k=290")
    assert {len(extra.demonstrations) for extra in extras} == {289}
    assert "Choosing 289 of 289 demonstrations for each question" in steps


def test_missing_files_are_said_before_missing_training_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    names = {"benchmark": "bird-dev", "backbone": "offline", "pipeline": "few-shot"}
    choice = EvaluationChoice(**names, overrides=["benchmark.train=null"], data=str(tmp_path))
    with pytest.raises(DataError, match=r"dev\.json"):
        prepare(evaluation_settings(choice), Progress())
    (tmp_path / "bird" / "dev_databases").mkdir(parents=True)
    for name in ("dev.json", "dev_tables.json"):
        (tmp_path / "bird" / name).touch()
    with pytest.raises(DataError, match="no training questions"):
        prepare(evaluation_settings(choice), Progress())
    assert not (tmp_path / "home" / "mlflow.db").exists(), "nothing slow came before"


def test_files_that_change_within_one_process_are_read_anew(
    own_benchmark: OwnBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    names = {"benchmark": str(own_benchmark.file), "backbone": "offline", "pipeline": "zero-shot"}
    choice = EvaluationChoice(**names, data=str(own_benchmark.folder.parent), limit=2)
    settings = evaluation_settings(choice)
    first = prepare(settings, Progress())
    file = own_benchmark.folder / "dev.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    questions[0]["question"] = "Is this another question?"
    file.write_text(json.dumps(questions), encoding="utf-8")

    second = prepare(settings, Progress())
    assert first.questions[0].text != second.questions[0].text == "Is this another question?"
