"""What the pipelines' tests share."""

from tests.support.guide import marked_conf, walk
from tests.support.stage_bench import bench, fake_openai, museum, open_fake, workers

__all__ = ["bench", "fake_openai", "marked_conf", "museum", "open_fake", "walk", "workers"]
