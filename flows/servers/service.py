"""Record of one service of `crosscheck up`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Service:
    """Process that `crosscheck up` keeps running.

    Attributes:
        name: shown to users: "Prefect", "MLflow", "worker".
        command: program and arguments.
        environment: the whole environment of the process.
        log: file for its output.
        is_healthy: health check.
        after: name of the service that must be healthy before this one starts; "": none.
        shutdown_delay_s: seconds that it continues after `crosscheck up` was killed, so that the other services
            can report their end to it.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    log: Path
    is_healthy: Callable[[], bool] = field(repr=False)
    after: str = ""
    shutdown_delay_s: float = 0.0
