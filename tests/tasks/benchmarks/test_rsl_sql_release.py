"""The RSL-SQL authors' released outputs as a recording."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tasks.benchmarks.layouts.base import layout_of
from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, read_release, recorded_replies
from tasks.core.errors import DataError
from tasks.core.outcome import Usage
from tasks.core.records import Question
from tests.support.in_process import run

ITEM = {"tables": ["hero"], "columns": ["hero.name"]}


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Two questions; the second was corrected."""
    (tmp_path / "forward_link.json").write_text(json.dumps([ITEM, ITEM]))
    told = {**ITEM, "sql_keywords": ["MAX"], "conditions": ["tall"]}
    (tmp_path / "augmentation.json").write_text(json.dumps([told, told]))
    for name in ("sql1", "sql2", "sql3"):
        (tmp_path / f"{name}.txt").write_text(f"SELECT '{name} of 0'\nSELECT '{name} of 1'\n")
    (tmp_path / "sql4.txt").write_text("SELECT 'sql3 of 0'\nSELECT 'sql4 of 1'\n")
    (tmp_path / "correct").mkdir()
    (tmp_path / "correct" / "sql1.json").write_text("[1, 0]")
    return tmp_path


def question(identity: str) -> Question:
    return Question(identity, "how tall?", "heroes")


def test_every_stage_gets_what_was_read_from_the_model(released: Path) -> None:
    replies = {reply.stage: reply for reply in recorded_replies(read_release(released), [question("1")])}
    assert {stage: json.loads(reply.reply) for stage, reply in replies.items()} == {
        "forward_link": ITEM,
        "preliminary_sql": {"sql": "SELECT 'sql1 of 1'"},
        "augmentation_elements": ITEM,
        "augmentation_keywords": {"sql_keywords": ["MAX"]},
        "augmentation_conditions": {"conditions": ["tall"]},
        "augmented_sql": {"sql": "SELECT 'sql2 of 1'"},
        "binary_selection": {"sql": "SELECT 'sql3 of 1'"},
        "self_correction": {"sql": "SELECT 'sql4 of 1'"},
    }
    assert {(r.question, r.database, r.round, r.request, r.usage) for r in replies.values()} == {
        ("1", "heroes", 0, None, Usage())
    }


def test_outputs_are_read_under_the_names_of_the_published_repository(released: Path) -> None:
    plain = read_release(released)
    published = {
        "forward_link.json": "step1/LLM.json",
        "augmentation.json": "step2/augmentation.json",
        "sql1.txt": "step1/preliminary_sql.txt",
        "sql2.txt": "step2/step_2_information_augmentation.txt",
        "sql3.txt": "step3/step_3_binary.txt",
        "sql4.txt": "step4/final_sql.txt",
    }
    for name, place in published.items():
        (released / place).parent.mkdir(exist_ok=True)
        (released / name).rename(released / place)
    assert read_release(released) == plain
    shutil.copy(released / "step4/final_sql.txt", released / "step1")
    with pytest.raises(DataError, match=r"holds step\d/final_sql.txt and step\d/final_sql.txt: keep one"):
        read_release(released)


def test_replies_name_the_model_that_wrote_the_outputs(released: Path) -> None:
    release = read_release(released)
    for model, given in (("gpt-4o", ()), ("deepseek-chat", ("deepseek-chat",))):
        assert {reply.model for reply in recorded_replies(release, [question("1")], *given)} == {model}


def test_outputs_of_another_model_are_named_with_it(released: Path) -> None:
    for more in (("--outputs", str(released)), ("--model", "deepseek-chat")):
        ran = run("import", "rsl-sql", "--output", str(released / "x.jsonl"), *more)
        assert ran.code == 2
        assert "belong together" in ran.err


def test_a_correction_that_changed_nothing_is_not_made_up(released: Path) -> None:
    stages = [reply.stage for reply in recorded_replies(read_release(released), [question("0")])]
    assert "self_correction" not in stages and "binary_selection" in stages


def test_replies_belong_to_ids_and_not_to_the_order_of_questions(released: Path) -> None:
    replies = list(recorded_replies(read_release(released), [question("1"), question("0")]))
    firsts = [json.loads(reply.reply)["sql"] for reply in replies if reply.stage == "preliminary_sql"]
    assert firsts == ["SELECT 'sql1 of 1'", "SELECT 'sql1 of 0'"]


def test_a_question_that_the_release_does_not_know_is_refused(released: Path) -> None:
    with pytest.raises(DataError, match="questions 0 to 1, not 2"):
        list(recorded_replies(read_release(released), [question("2")]))


def test_files_that_do_not_belong_together_are_refused(released: Path) -> None:
    (released / "sql2.txt").write_text("SELECT 1\n")
    with pytest.raises(DataError, match=r"sql2\.txt has 1 items, and forward_link\.json 2"):
        read_release(released)


def test_a_missing_file_says_what_was_looked_for(released: Path) -> None:
    (released / "sql3.txt").unlink()
    with pytest.raises(DataError, match=r"sql3\.txt.*--data .*--outputs FOLDER"):
        read_release(released)


def test_an_item_without_its_lists_is_named(released: Path) -> None:
    (released / "augmentation.json").write_text(
        json.dumps([{**ITEM, "sql_keywords": [], "conditions": []}, ITEM])
    )
    with pytest.raises(DataError, match=r"augmentation\.json: item 1 .*sql_keywords"):
        read_release(released)


def test_vectors_are_read_by_name_and_checked_for_length(released: Path) -> None:
    release = read_release(released)
    assert release.verdicts("correct/sql1") == (True, False)
    shutil.copy(released / "correct" / "sql1.json", released / "correct" / "sql2.json")
    (released / "correct" / "sql2.json").write_text("[1]")
    with pytest.raises(DataError, match="do not belong together"):
        release.verdicts("correct/sql2")


def test_the_real_release_has_seven_replies_a_question_and_49_corrections(shared_data: Path) -> None:
    questions = layout_of("bird").read_split(shared_data / "bird" / "dev.json").questions
    replies = recorded_replies(read_release(shared_data / FOLDER), questions)
    counted = Counter(reply.stage for reply in replies)
    assert counted.pop("self_correction") == 49
    assert set(counted.values()) == {1534} and len(counted) == 7
