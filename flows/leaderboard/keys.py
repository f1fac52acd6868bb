"""The boards of a benchmark with the ranking by each of some answer keys."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.scoring.stored_answers import judged_by_keys
from tasks.settings.benchmark import key_in_folder, key_name
from tasks.tracking.leaderboard.key_ranks import rank_by_key
from tasks.tracking.leaderboard.leaderboard import Board
from tasks.tracking.warehouse.runs import Warehouse


def with_keys(
    boards: Sequence[Board], keys: str, warehouse: Warehouse, folders: Folders, progress: Progress
) -> tuple[Board, ...]:
    """Return boards of one benchmark with the ranking by each key; `keys` are separated by commas.

    Raises:
        CrosscheckError: a key is wrong, or the questions of a run were removed, or its databases changed.
    """
    items = [key_in_folder(item.strip(), Path.cwd()) for item in keys.split(",") if item.strip()]
    found = []
    for board in boards:
        if not board.ranked:
            found.append(board)
            continue
        runs = [warehouse.read_run(row.run_id) for row in board.ranked]
        rows = judged_by_keys(runs, items, folders, progress)
        found.append(
            replace(board, keys=tuple(rank_by_key(key_name(item), board.rule, rows) for item in items))
        )
    return tuple(found)
