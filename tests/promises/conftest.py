"""What the tests of promises share."""

from tests.support.command_line import built_demo, crosscheck, prefect_server
from tests.support.counting import count
from tests.support.fake_openai import fake_openai

__all__ = ["built_demo", "count", "crosscheck", "fake_openai", "prefect_server"]
