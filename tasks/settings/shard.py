"""Which part of an evaluation's questions one worker answers."""

from pydantic import Field

from tasks.settings.base import Settings


class Shard(Settings):
    """A shard of an evaluation: every `of`-th question, so that databases and difficulties are spread evenly."""

    run: str
    """Id of the evaluation."""
    number: int = Field(ge=1)
    """Which one, counted from 1."""
    of: int = Field(ge=1)
    """How many there are."""

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of}"
