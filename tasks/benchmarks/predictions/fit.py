"""Check that predictions are paired with their questions, by the words that they share with the gold SQL."""

import re
from collections.abc import Mapping
from statistics import fmean

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.formats import PredictionFile

FEWEST = 5
"""Fewest predictions for which the pairing is checked."""
BETTER = 0.15
"""Margin by which another pairing must share more words; correct pairings share about 0.6."""


def about_fit(file: PredictionFile, sqls: Mapping[str, str], benchmark: Benchmark) -> tuple[str, ...]:
    """Return a warning if another pairing, by id or by position, fits the questions better."""
    found = _likeness(sqls, benchmark.gold)
    advice = {
        "question id": "Leave out --by-position."
        if file.reading.by_position
        else "Name them question_id, one for each prediction.",
        "position": "--by-position reads them so.",
    }
    for way, other in (("question id", _by_id(file)), ("position", _by_position(file, benchmark))):
        if (like := _likeness(other, benchmark.gold)) > found + BETTER:
            return (
                f"The predictions seem to be paired with the wrong questions. Paired by {way}, they share "
                f"{like:.0%} of their words with the gold SQL; as they were read, {found:.0%}. {advice[way]}",
            )
    return ()


def _by_id(file: PredictionFile) -> dict[str, str]:
    return {entry.question_id: entry.sql for entry in file.entries if entry.question_id and entry.sql}


def _by_position(file: PredictionFile, benchmark: Benchmark) -> dict[str, str]:
    """Pair by place in the file; where all keys are numbers from 0, by these."""
    entries = {entry.question_id: entry for entry in file.entries}
    places = [str(place) for place in range(len(benchmark.questions))]
    ordered = [entries[place] for place in places] if entries.keys() == set(places) else file.entries
    if len(ordered) != len(benchmark.questions):
        return {}
    pairs = zip(benchmark.questions, ordered, strict=True)
    return {question.id: entry.sql for question, entry in pairs if entry.sql}


def _likeness(sqls: Mapping[str, str], gold: Mapping[str, str]) -> float:
    """Return the mean share of common words of predictions and golds, 0 for too few of them."""
    pairs = [(_words(sql), _words(gold[name])) for name, sql in sqls.items() if name in gold]
    if len(pairs) < max(FEWEST, len(sqls) / 2):
        return 0.0
    return fmean(len(one & other) / len(one | other) if one | other else 1.0 for one, other in pairs)


def _words(sql: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", sql.lower()))
