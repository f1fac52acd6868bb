"""Where demonstrations come from: the retriever at hand, and Spider's questions for entity linking."""

import sys
from pathlib import Path

import pytest

from flows.evaluate.demonstrations import DemonstrationSearch, QuestionExtras, with_retriever
from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import load_benchmark
from tasks.retrieval.alignment import COVERED
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.home import find_conf


def chosen(home: Path, data: Path, pipeline: str, *overrides: str) -> tuple[list[QuestionExtras], str]:
    """Return what the first questions of the demo are shown, and the sentences for the summary."""
    settings = evaluation_settings(
        EvaluationChoice(
            benchmark="demo",
            backbone="offline",
            pipeline=pipeline,
            overrides=overrides,
            data=str(data),
            home=str(home),
        )
    )
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


@pytest.mark.parametrize(
    ("found", "retriever", "says"),
    [
        ("BAAI/bge-large-en-v1.5", "embedding", "Demonstrations: by BAAI/bge-large-en-v1.5."),
        ("other/encoder", "embedding", "other/encoder stands in for BAAI/bge-large-en-v1.5"),
        (None, "bm25", "BM25 stands in for BAAI/bge-large-en-v1.5"),
    ],
)
def test_the_settings_of_the_run_have_the_retriever_that_auto_is(
    found: str | None, retriever: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.retrieval.encoder_files.available_encoder", lambda name: found)
    settings = evaluation_settings(
        EvaluationChoice(benchmark="demo", backbone="offline", pipeline="rsl-sql-acl")
    )
    chosen, note = with_retriever(settings)
    assert chosen.pipeline.demonstrations.retriever == retriever
    assert chosen.pipeline.demonstrations.encoder == (found or settings.pipeline.demonstrations.encoder)
    assert says in note
    assert with_retriever(chosen) == (chosen, "")
