"""The layout of the demo that ships with the project: built on first use, then read as BIRD."""

from pathlib import Path

from tasks.benchmarks.layouts.base import Layout, SearchPaths
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.kinds import LAYOUTS


@LAYOUTS.register("demo")
class DemoLayout(Layout):
    """The demo's layout: its folder is below the working folder and is built there."""

    def folder(self, settings: BenchmarkSettings, places: SearchPaths) -> Path:
        """Build the demo, unless it is there, and return its folder.

        Raises:
            DataError: the demo's sources are missing or contradict themselves.
        """
        from tasks.benchmarks.demo.build_once import build_demo

        sources = places.conf / "benchmarks" / "demo"
        return build_demo(places.home / "benchmarks" / "demo", sources=sources, progress=places.progress)
