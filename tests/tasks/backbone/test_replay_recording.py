"""The file of a recording: written whole, read strictly, and errors that name the line."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.backbone.recordings import RecordedReply, read_recording, write_recording
from tasks.core.errors import ConfigurationError, CrosscheckError, DataError
from tasks.core.files import check_writable
from tasks.core.outcome import Usage

REPLY = RecordedReply(
    question="717",
    database="superhero",
    stage="forward_link",
    round=0,
    reply='{"tables": ["hero"]}',
    request="ab" * 32,
    model="gpt-4o",
    usage=Usage(10, None, 3, None),
)
tokens = st.none() | st.integers(0, 10**9)
replies = st.builds(
    RecordedReply,
    question=st.text(min_size=1),
    database=st.text(),
    stage=st.text(min_size=1),
    round=st.integers(0, 9),
    reply=st.text(),
    request=st.none() | st.text(),
    model=st.text(),
    usage=st.builds(Usage, tokens, tokens, tokens, tokens),
    truncated=st.booleans(),
)


@given(st.lists(replies, unique_by=lambda reply: reply.origin))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, written: list[RecordedReply]
) -> None:
    path = tmp_path_factory.mktemp("recording") / "run.jsonl"
    assert write_recording(path, written) == len(written)
    assert read_recording(path).replies == tuple(written)


def test_a_line_is_an_object_that_says_where_the_reply_belongs(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [REPLY])
    line = json.loads(path.read_text(encoding="utf-8"))
    assert list(line) == [
        "question", "database", "stage", "round", "reply", "request", "model", "usage", "truncated",
    ]  # fmt: skip
    assert line["usage"] == {
        "input": 10,
        "cached_input": None,
        "output": 3,
        "reasoning": None,
        "cache_write": None,
    }


def test_a_number_may_stand_for_a_question_and_what_is_unknown_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('\n{"question": 7, "database": "d", "stage": "s", "round": 1, "reply": ""}\n\n')
    assert read_recording(path).replies == (RecordedReply("7", "d", "s", 1, ""),)


def test_recordings_can_be_put_together_and_the_same_line_twice_is_one(tmp_path: Path) -> None:
    path = tmp_path / "both.jsonl"
    write_recording(path, [REPLY, replace(REPLY, round=1)])
    path.write_text(path.read_text() * 2)
    assert len(read_recording(path).replies) == 2


def test_two_replies_for_one_place_are_refused_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [REPLY])
    path.write_text(path.read_text() + json.dumps(asdict(replace(REPLY, reply="{}"))) + "\n")
    with pytest.raises(DataError, match=r"lines 1 and 2 .* question 717, stage forward_link, round 0"):
        read_recording(path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"question": "1", "stage": "s", "round": 0, "reply": ""}', "database"),
        ('{"question": "1", "database": "d", "stage": "s", "round": -1, "reply": ""}', "round"),
        ('{"question": "1", "database": "d", "stage": "s", "round": 0, "reply": null}', "reply"),
        ("not JSON", "JSON"),
        ("[1]", "object"),
    ],
)
def test_a_malformed_line_is_named_with_what_is_wrong(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [REPLY])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=rf"run\.jsonl, line 2: .*{complaint}"):
        read_recording(path)


def test_a_missing_recording_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="evaluate --record FILE"):
        read_recording(tmp_path / "none.jsonl")


def test_a_recording_that_fails_halfway_leaves_the_one_before_it_untouched(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [REPLY])

    def broken() -> "list[RecordedReply]":
        yield replace(REPLY, question="718")  # type: ignore[misc]
        raise CrosscheckError("the cache is gone")

    with pytest.raises(CrosscheckError, match="cache is gone"):
        write_recording(path, broken())
    assert read_recording(path).replies == (REPLY,)
    assert [file.name for file in tmp_path.iterdir()] == ["run.jsonl"]


def test_half_a_character_does_not_keep_a_recording_from_being_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [replace(REPLY, reply="\ud83d")])
    assert read_recording(path).replies[0].reply == "?"


def test_where_nothing_can_be_written_is_found_before_anything_is_paid(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        check_writable(tmp_path / "none" / "run.jsonl", "--record")
    with pytest.raises(ConfigurationError, match="this is a folder"):
        check_writable(tmp_path, "--record")
    check_writable(tmp_path / "run.jsonl", "--record")
