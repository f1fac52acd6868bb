"""Settings of a re-run: the parameters of the `rerun` flow."""

from typing import Literal

from tasks.settings.base import Settings

Only = Literal["errors", "wrong", "empty", "timeouts"]


class RerunSettings(Settings):
    """Which questions of which run are asked again, and what of their earlier answers is kept."""

    run: str
    """The run: its id or the beginning of it, MLflow's id, or `latest`, `latest~1`, ..."""
    only: Only = "errors"
    """errors: no answer, for a reason that can be mended or was a bug; wrong: an answer that is not right; empty: an
    answer that returned no row; timeouts: an answer that was stopped."""
    questions: str | None = None
    """These instead: ids and ranges of ids, `717-845,900`, or `@file`; None: those that `only` names."""
    from_stage: str | None = None
    """Drop the results of this stage and of those that begin after it; None: keep every result there is."""
    fresh: bool = False
    """Ask the model for new replies instead of using those that were paid for."""
    overrides: tuple[str, ...] = ()
    """Changes of settings, `backbone.concurrency=4`: only of those that cannot change what the score means."""
    data: str
    """Folder of the benchmarks' files."""
    home: str
    """Working folder."""
