"""What the tests of promises share."""

from tests.flows.conftest import backbone_file, demo, model
from tests.support.counting import count
from tests.support.fake_openai import fake_openai

__all__ = ["backbone_file", "count", "demo", "fake_openai", "model"]
