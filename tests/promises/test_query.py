"""`crosscheck query` attacked: it reads the warehouse, and nothing else."""

import hashlib
from pathlib import Path

import pytest

from tasks.core.errors import ConfigurationError
from tasks.results.build_record import record_of
from tasks.results.warehouse.runs import Warehouse
from tasks.results.warehouse.views import query
from tests.support.counting import Count
from tests.tasks.results.samples import make_rows, make_run

pytestmark = pytest.mark.slow

ATTACKS = Path(__file__).with_name("query_attacks.txt")
SECRET = "a line that only the file beside the warehouse has"


@pytest.mark.promise("query")
def test_a_query_reads_the_warehouse_and_nothing_else(
    tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse, canary = tmp_path / "warehouse.duckdb", tmp_path / "canary.csv"
    Warehouse(warehouse).finish(record_of(make_run(), make_rows(3)))
    canary.write_text(f"secret\n{SECRET}\n", encoding="utf-8")
    before, files = hashlib.sha256(warehouse.read_bytes()).hexdigest(), sorted(tmp_path.iterdir())
    lines = ATTACKS.read_text(encoding="utf-8").splitlines()
    for expected, sql in (line.split("\t") for line in lines if not line.startswith("#")):
        with count.fault(sql):
            try:
                told, found = str(query(warehouse, sql.replace("CANARY", str(canary)))), "harmless"
            except ConfigurationError as error:
                told, found = str(error), "refused"
            assert found == expected or expected == "harmless", told[:200]
            assert SECRET not in told and "root:" not in told and "PATH=" not in told
            assert sorted(tmp_path.iterdir()) == files
    assert query(warehouse, "SELECT count(*) FROM questions").rows == ((3,),)
    assert hashlib.sha256(warehouse.read_bytes()).hexdigest() == before
