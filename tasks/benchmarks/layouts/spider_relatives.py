"""Layouts of Spider's relatives whose files differ from Spider's."""

from pathlib import Path

from tasks.benchmarks.layouts.spider import SpiderLayout
from tasks.settings.kinds import LAYOUTS


@LAYOUTS.register("spider-syn")
class SpiderSynLayout(SpiderLayout):
    """Spider-Syn (Gan et al. 2021): an item has Spider's question and, in SpiderSynQuestion, its own."""

    question_keys = ("SpiderSynQuestion",)


@LAYOUTS.register("kaggle-dbqa")
class KaggleDbqaLayout(SpiderLayout):
    """KaggleDBQA (Lee et al. 2021): a question file per database; columns are described in the tables file."""

    def database_path(self, databases: Path, database_id: str) -> Path:
        """Return the place of a database's file: in a folder of its own, or beside the others."""
        alone = databases / f"{database_id}.sqlite"
        return alone if alone.is_file() else super().database_path(databases, database_id)

    def suite_paths(self, databases: Path, database_id: str) -> tuple[Path, ...]:
        """Return nothing: there is no test suite."""
        return ()
