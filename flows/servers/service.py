"""What one of the servers is: its command, its environment, and how to see that it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Service:
    """A process that `crosscheck up` keeps running.

    Attributes:
        name: for people: "Prefect", "MLflow", "worker".
        command: the words.
        environment: all of its environment.
        log: file that takes its output.
        answers: whether it is at work.
        url: where a person looks at it; "" where there is nothing to see.
        after: name of the service that must answer before this one starts; "": none.
        linger_s: seconds it goes on after the others were told to stop, so that they can report their end to it.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    log: Path
    answers: Callable[[], bool] = field(repr=False)
    url: str = ""
    after: str = ""
    linger_s: float = 0.0
