"""People's verdicts on golds, read from files, and the answer key that follows from them."""

import datetime
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tasks.benchmarks.files.pairs import ID_NAMES, read_objects
from tasks.benchmarks.keys.key import UNDECIDED
from tasks.core.errors import ConfigurationError, DataError, did_you_mean
from tasks.core.files import atomic_write_text
from tasks.core.wording import and_more, counted, storable
from tasks.scoring.golds.agreement import Agreement, agreement
from tasks.tracking.review.queue import VERDICTS, Verdict

MAJORITY, UNANIMOUS = "majority", "unanimous"
SHOWN = 20


@dataclass(frozen=True)
class Imported:
    """Verdicts of reviewers, and what they come to."""

    verdicts: tuple[Verdict, ...]
    decides: str  # "majority", "unanimous", or the name of the reviewer who decides
    agreement: Agreement
    entries: tuple[dict[str, Any], ...] = field(repr=False)  # of the file of corrections
    kept: tuple[str, ...]  # ids of questions whose gold is right

    @property
    def actions(self) -> Mapping[str, int]:
        """Number of entries by action."""
        return Counter(entry["action"] for entry in self.entries)


def read_verdicts(files: Sequence[Path]) -> tuple[Verdict, ...]:
    """Read verdicts from CSV, JSON or JSON lines: question_id, reviewer, verdict, reason, date, sql.

    Raises:
        DataError: a file cannot be read.
    """
    found = []
    for file in files:
        for row in read_objects(file):
            identity = next(
                (str(row.content[key]) for key in ID_NAMES if row.content.get(key) is not None), ""
            )
            sql = row.content.get("sql") or ()
            found.append(
                Verdict(
                    identity,
                    str(row.content.get("reviewer") or "").strip(),
                    str(row.content.get("verdict") or "").strip().lower(),
                    str(row.content.get("reason") or "").strip(),
                    str(row.content.get("date") or "").strip(),
                    tuple(map(str, sql)) if isinstance(sql, list) else (str(sql),) if sql else (),
                )
            )
    return tuple(found)


def decide(verdicts: Sequence[Verdict], question_ids: Sequence[str], decides: str) -> Imported:
    """Return what verdicts come to.

    `decides` is "majority" (more than half of those who judged the question), "unanimous", or the name of a reviewer,
    whose verdict counts where there is one; else the majority's. Without a decision, the entry is undecided.

    Raises:
        DataError: everything that is wrong with the verdicts.
    """
    reviewers = {each.reviewer for each in verdicts}
    if decides not in (MAJORITY, UNANIMOUS, *reviewers):
        raise ConfigurationError(
            f'--decides {decides}: no verdict is from "{decides}". '
            f"{did_you_mean(decides, [MAJORITY, UNANIMOUS, *sorted(reviewers)])}"
        )
    problems = list(_problems(verdicts, set(question_ids)))
    if problems:
        lines = filter(None, (*problems[:SHOWN], and_more(problems, SHOWN)))
        raise DataError(
            f"The verdicts cannot be used, {counted(len(problems), 'problem')}:\n"
            + "\n".join(f"  {line}" for line in lines)
        )
    given: dict[str, list[Verdict]] = {}
    for each in verdicts:
        given.setdefault(each.question_id, []).append(each)
    order = {name: place for place, name in enumerate(question_ids)}
    by_question = dict(sorted(given.items(), key=lambda item: order[item[0]]))
    decisions = {name: _decision(those, decides) for name, those in by_question.items()}
    return Imported(
        tuple(verdicts),
        decides,
        agreement(
            {name: {each.reviewer: each.verdict for each in those} for name, those in by_question.items()}
        ),
        tuple(_entry(name, by_question[name], word) for name, word in decisions.items() if word != "keep"),
        tuple(name for name, word in decisions.items() if word == "keep"),
    )


def _problems(verdicts: Sequence[Verdict], known: set[str]) -> Iterator[str]:
    if not verdicts:
        yield "there is none"
    seen: set[tuple[str, str]] = set()
    for each in verdicts:
        where = f"question {each.question_id}, {each.reviewer or 'no reviewer'}"
        if each.question_id not in known:
            yield f"{where}: the benchmark has no such question"
        if not each.reviewer:
            yield f"{where}: the reviewer is missing"
        if each.verdict not in VERDICTS:
            yield f'{where}: "{each.verdict}" is no verdict. {did_you_mean(each.verdict, VERDICTS)}'
        elif each.verdict != "keep" and not each.reason:
            yield f"{where}: the reason is missing"
        if each.verdict in ("replace", "add") and not each.sqls:
            yield f'{where}: "{each.verdict}" needs the SQL that is right'
        if each.date and not _is_date(each.date):
            yield f"{where}: the date {each.date!r} is not written as 2026-11-24"
        if (each.question_id, each.reviewer) in seen:
            yield f"{where}: there is another verdict of this reviewer; keep one"
        seen.add((each.question_id, each.reviewer))


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _decision(given: Sequence[Verdict], decides: str) -> str:
    own = next((each.verdict for each in given if each.reviewer == decides), None)
    if own is not None:
        return own
    word, count = Counter(each.verdict for each in given).most_common(1)[0]
    needed = len(given) if decides == UNANIMOUS else len(given) // 2 + 1
    return word if count >= needed else UNDECIDED


def _entry(name: str, given: Sequence[Verdict], action: str) -> dict[str, Any]:
    agreeing = [each for each in given if action in (each.verdict, UNDECIDED)]
    sqls = dict.fromkeys(sql for each in agreeing for sql in each.sqls) if action != "withdraw" else {}
    reasons = [f"{each.reviewer}: {each.verdict}, {each.reason}".rstrip(", ") for each in given]
    dated = [f"{each.reviewer} ({each.date})" if each.date else each.reviewer for each in agreeing]
    return {
        "question_id": name,
        "action": action,
        **({"sql": list(sqls)} if sqls else {}),
        "reason": "; ".join(reasons),
        "source": ", ".join(dated),
    }


def write_key(imported: Imported, file: Path) -> None:
    """Write the answer key as a file of corrections, with the agreement of the reviewers.

    Raises:
        ConfigurationError: the file is there already, or cannot be written.
    """
    if file.exists():
        raise ConfigurationError(f"--output {file}: the file is there already; name another one.")
    content = {
        "description": f"Verdicts of {', '.join(imported.agreement.reviewers)}; decided by: {imported.decides}.",
        "agreement": asdict(imported.agreement) | {"decides": imported.decides, "kept": list(imported.kept)},
        "corrections": list(imported.entries),
    }
    try:
        atomic_write_text(file, storable(json.dumps(content, ensure_ascii=False, indent=1)) + "\n")
    except OSError as error:
        raise ConfigurationError(f"--output {file}: it cannot be written: {error.strerror}.") from None
