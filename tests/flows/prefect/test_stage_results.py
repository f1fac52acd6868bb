"""Results that Prefect persisted, read through its own record class."""

from pathlib import Path
from typing import Any

import pytest
from prefect.filesystems import LocalFileSystem
from prefect.results import ResultStore
from prefect.serializers import CompressedJSONSerializer, JSONSerializer, Serializer

from flows.prefect import storage
from flows.prefect.stage_results import open_results
from tasks.settings.home import Home

RESULT = {"value": {"tables": ["museum"], "note": "Überblick"}, "calls": [], "made_by": "run/7"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prefect's result storage: a folder."""
    found = tmp_path / "stages"
    monkeypatch.setattr(
        "flows.prefect.storage.storage_in_use", lambda home: LocalFileSystem(basepath=str(found))
    )
    assert storage.storage_in_use(Home(tmp_path)).basepath == str(found)
    return found


@pytest.mark.parametrize(
    "serializer", [JSONSerializer(), CompressedJSONSerializer()], ids=lambda each: each.type
)
async def test_what_prefects_own_store_wrote_is_read(
    folder: Path, tmp_path: Path, serializer: Serializer
) -> None:
    store: Any = ResultStore(result_storage=LocalFileSystem(basepath=str(folder)), serializer=serializer)
    await store.awrite(obj=RESULT, key="forward_link/abc")
    results = open_results(Home(tmp_path))
    assert await results.read("forward_link/abc") == RESULT
    assert await results.read("forward_link/absent") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"result": "{"}', b'{"metadata": {}, "result": "no JSON"}', b"[]"]
)
async def test_a_record_that_cannot_be_read_counts_as_missing(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    results = open_results(Home(tmp_path))
    (folder / "forward_link").mkdir()
    (folder / "forward_link" / "abc").write_bytes(content)
    assert await results.read("forward_link/abc") is None
    await results.write("forward_link/abc", RESULT)
    assert await open_results(Home(tmp_path)).read("forward_link/abc") == RESULT
