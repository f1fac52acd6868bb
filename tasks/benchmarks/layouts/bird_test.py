"""The layout of BIRD's test split: BIRD's, without gold."""

from tasks.benchmarks.layouts.base import Layout
from tasks.settings.kinds import LAYOUTS


@LAYOUTS.register("bird-test")
class BirdTestLayout(Layout):
    """Questions without gold: they are answered, and their predictions handed in."""

    has_gold = False
