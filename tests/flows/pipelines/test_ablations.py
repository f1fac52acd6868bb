"""The table of ablations in docs/ablations.md: every row can be started, and changes what its pipeline does."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.home import CHECKOUT, find_conf
from tasks.settings.load import available, load_pipeline_settings
from tests.support.offline_run import offline_run


def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each row's pipeline and settings, with every value that it names."""
    section = (
        (CHECKOUT / "docs" / "ablations.md")
        .read_text(encoding="utf-8")
        .partition("## Profiles and ablations")[2]
    )
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or "pipeline." not in cells[3]:
            continue
        first, *others = re.findall(r"`([^`]+)`", cells[3])
        yield cells[0].strip("`"), tuple(first.split())
        for value in others:
            yield cells[0].strip("`"), (f"{first.partition('=')[0]}={value}",)


ROWS = tuple(rows())


def test_the_table_has_rows_for_every_profile() -> None:
    assert len(ROWS) > 40
    shipped = set(available(find_conf(), "pipeline")) - {"zero-shot", "rsl-sql+dac"}
    assert {pipeline for pipeline, _ in ROWS} == shipped


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ablations")


def setting_of(assignment: str) -> str:
    return assignment.partition("=")[0]


def test_every_row_changes_what_its_pipeline_does() -> None:
    for pipeline, settings in ROWS:
        plain = load_pipeline_settings(find_conf(), pipeline)
        changed = load_pipeline_settings(find_conf(), pipeline, settings)
        is_default = settings == ("pipeline.prompt.values_per_column=2",)
        assert (plain == changed) is is_default, (pipeline, settings)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", sorted({pipeline for pipeline, _ in ROWS}))
async def test_every_setting_can_be_started(home: Path, workers: SqlWorkers, pipeline: str) -> None:
    """Of several values of one setting the first: all are loaded above."""
    rows = {
        tuple(map(setting_of, settings)): settings for name, settings in reversed(ROWS) if name == pipeline
    }
    for settings in rows.values():
        run = await offline_run(
            pipeline, *settings, home=home, data=str(home), questions="40", eliminator=True, workers=workers
        )
        (outcome,) = run.outcomes.values()
        assert outcome.failure is None, settings
        assert outcome.sql, settings
