"""Reads the accepted results of a question, where a benchmark has results in the place of a gold SQL."""

from tasks.benchmarks.files.readers import read_text
from tasks.benchmarks.layouts.base import GoldResults
from tasks.errors import DataError
from tasks.scoring.execution.subset import AcceptedResult, SubsetGold, read_gold_csv


def read_accepted(results: GoldResults) -> SubsetGold:
    """Read the accepted results of one question.

    Raises:
        DataError: a file cannot be read, is empty, or has fewer columns than are asked for.
    """
    accepted = []
    for path, columns in zip(results.files, results.columns, strict=True):
        text = read_text(path)
        if not text.strip():
            raise DataError(f"{path} is empty: a result has at least a line with its columns.")
        rows = read_gold_csv(text)
        width = min((len(row) for row in rows), default=max(columns, default=0) + 1)
        if columns and max(columns) >= width:
            raise DataError(
                f"{path} has {width} columns, but column {max(columns)} (from 0) is asked for in condition_cols."
            )
        accepted.append(AcceptedResult(rows, columns))
    return SubsetGold(tuple(accepted), results.ignore_order)
