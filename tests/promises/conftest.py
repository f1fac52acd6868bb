"""What the tests of promises share."""

from tests.support.counting import count
from tests.support.fake_openai import fake_openai

__all__ = ["count", "fake_openai"]
