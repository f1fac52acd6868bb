"""What the stages' tests share."""

from tests.support.stage_bench import bench, fake_openai, museum, open_fake, workers

__all__ = ["bench", "fake_openai", "museum", "open_fake", "workers"]
