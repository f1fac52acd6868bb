"""Makes the training pairs of several training splits, one flow run per split, and writes them to one file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli.progress import open_progress
from flows.finetuning.settings import Evaluated
from flows.orchestration.server import LocalServer
from flows.questions.launch import launched
from flows.runtime.control import Control
from flows.runtime.folder_use import watched
from flows.runtime.logs import logging_to
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from flows.finetuning.pairs import Pairs, SplitPairs


def run_dataset(
    splits: Sequence[EvaluationSettings], evaluated: Evaluated, output: Path, held_out: float
) -> "Pairs":
    """Make and write the pairs of every training split.

    Args:
        splits: per training split its settings, with the same backbone and pipeline.
        evaluated: the splits that the eliminator will be evaluated on.
        output: file of the pairs.
        held_out: share of the questions that are held out, into a file of their own.

    Raises:
        CrosscheckError: what is wrong and what to do about it.
        Interrupted: the user stopped it; what was answered is persisted.
    """
    home = Home(Path(splits[0].home))
    made: list[SplitPairs] = []
    with watched(home), logging_to(home), LocalServer(home) as server:
        for place, settings in enumerate(splits, 1):
            with open_progress(sys.stderr) as progress:
                progress.step(f"{place} of {len(splits)}: {settings.benchmark.name}")
                control = Control(progress)
                with launched(settings, control, server) as prefect:
                    from flows.finetuning.pairs import pairs_flow

                    flow = pairs_flow(control, prefect.preparation)
                    made.append(prefect.loop.run(flow(settings, evaluated)))
    from flows.finetuning.pairs import write_splits

    return write_splits(made, output, held_out)
