"""The warehouse's file is replaced by a smaller one without losing what another process writes just then."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tasks.results.build_record import record_of
from tasks.results.warehouse.runs import Warehouse
from tests.tasks.results.samples import make_report, make_run


def test_a_file_that_was_replaced_while_it_was_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "warehouse.duckdb"
    warehouse = Warehouse(path)
    warehouse.finish(record_of(make_run(), make_report(3)))
    smaller = path.with_suffix(".smaller")
    smaller.write_bytes(path.read_bytes())
    really, opened = duckdb.connect, []

    def connect(*arguments: Any, **named: Any) -> Any:
        connection = really(*arguments, **named)
        if not opened:
            smaller.replace(path)
        opened.append(path.stat().st_ino)
        return connection

    monkeypatch.setattr(duckdb, "connect", connect)
    warehouse.start(make_run(run_id="written-just-then"))
    assert len(opened) == 2
    assert {run.run_id for run in warehouse.runs()} == {make_run().run_id, "written-just-then"}
