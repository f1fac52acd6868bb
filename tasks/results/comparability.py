"""Whether two runs may be compared at all, and what a reader must know when they are."""

from collections.abc import Iterator, Sequence
from typing import get_args

from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.core.wording import agreeing, counted, shorten
from tasks.results.comparison import Pair, Side
from tasks.results.parameters import flatten
from tasks.results.run_record import DATABASES_CHANGED, REROLLED, RunRecord, Unfinished
from tasks.scoring.degradation import about_models, find_degradation
from tasks.scoring.scores import QuestionScore

_NAMED = 5


def common_rule(a: RunRecord, b: RunRecord, chosen: str | None) -> str:
    """Return the rule by which two runs are compared, after checking that they have the same questions.

    It is the chosen one; if that is None, the headline rule that both runs share.
    """
    _check_questions(a, b)
    changed = changed_databases(a, b)
    if changed and a.engine == b.engine:
        raise ConfigurationError(
            f"These runs cannot be compared: {counted(len(changed), 'database')} changed between them "
            f"({_named(changed)}).\n"
            f"  {a.run_id} ({a.name}): sha256 {a.databases[changed[0]]}\n"
            f"  {b.run_id} ({b.name}): sha256 {b.databases[changed[0]]}\n"
            "Their scores would differ because the data differ. Evaluate both on the same databases: paid replies "
            "are reused."
        )
    common = [rule for rule in _rules(a) if rule in _rules(b)]
    if chosen is not None:
        if chosen not in common:
            raise ConfigurationError(
                f'The runs were not both judged by the rule "{chosen}". {did_you_mean(chosen, common)}'
            )
        return chosen
    if a.rule != b.rule:
        advice = f"Choose one that both were judged by: --rule {' or '.join(common)}." if common else ""
        raise ConfigurationError(
            f'The headline rule of {a.run_id} is "{a.rule}", that of {b.run_id} is "{b.rule}": '
            f"their scores do not mean the same. {advice}".rstrip()
        )
    return a.rule


def _check_questions(a: RunRecord, b: RunRecord) -> None:
    facts = (
        ("benchmark", a.benchmark, b.benchmark),
        ("revision", a.revision, b.revision),
        ("question file's sha256", a.question_sha256, b.question_sha256),
    )
    for name, of_a, of_b in facts:
        if of_a != of_b:
            raise ConfigurationError(
                f"These runs cannot be compared: the {name} differs.\n"
                f"  {a.run_id} ({a.name}): {of_a}\n"
                f"  {b.run_id} ({b.name}): {of_b}\n"
                "A difference of their scores would be a difference of the questions. Evaluate both on the same "
                'benchmark, revision and question file; "crosscheck runs" lists what there is.'
            )


def changed_databases(a: RunRecord, b: RunRecord) -> list[str]:
    """Return the databases whose content differs between the two runs."""
    return [name for name, digest in a.databases.items() if b.databases.get(name, digest) != digest]


def changed_sources(a: RunRecord, b: RunRecord) -> list[str]:
    """Return the prompt templates, own files and own packages of both runs that are not the same in them."""
    return [name for name, digest in a.sources.items() if b.sources.get(name, digest) != digest]


def _rules(run: RunRecord) -> list[str]:
    judged = (rule for row in run.rows for rule in row.final.correct)
    return list(dict.fromkeys([run.rule, *judged]))


def warnings(a: RunRecord, b: RunRecord, pairs: Sequence[Pair], rule: str) -> tuple[str, ...]:
    """Return what a reader must know before trusting the numbers of the compared questions by a rule, in sentences."""
    return (
        *_about_both(a, b, rule),
        *_about_run("A", a, [pair.a for pair in pairs]),
        *_about_run("B", b, [pair.b for pair in pairs]),
        *_about_questions(pairs),
    )


def left_out(sides: Sequence[Side], compared: int) -> tuple[str, ...]:
    """List which questions are not compared, in sentences; () when both runs scored the same ones."""
    sentences = []
    for side in sides:
        if side.left_out:
            sentences.append(
                f"{counted(len(side.left_out), 'question')} that only {side.letter} scored "
                f"{agreeing('is', len(side.left_out))} left out: the comparison is on the {compared:,} that both "
                "scored."
            )
        if side.not_executable:
            sentences.append(
                f"{counted(side.not_executable, 'question')} of {side.letter} could not be scored, because the "
                "database or the gold is missing."
            )
    return tuple(sentences)


def _about_both(a: RunRecord, b: RunRecord, rule: str) -> Iterator[str]:
    if a.run_id == b.run_id:
        yield "A and B are the same run."
    if a.rule != rule or b.rule != rule:
        yield (
            f"The metrics are those of the runs, by the rule {a.rule} in A and {b.rule} in B, not by {rule}."
        )
    if a.engine != b.engine:
        engine_a, engine_b = [run.engine or "an unknown engine" for run in (a, b)]
        yield (
            f"A was executed by {engine_a}, B by {engine_b}: functions differ between versions, "
            "so some flips may not be the model's doing."
        )
        if changed := changed_databases(a, b):
            yield f"The content of {counted(len(changed), 'database')} is not the same in A and B: {_named(changed)}."
    benchmark_a, benchmark_b = a.settings_of("benchmark"), b.settings_of("benchmark")
    limit_a, limit_b = benchmark_a.get("timeout_s"), benchmark_b.get("timeout_s")
    if limit_a != limit_b:
        yield f"A query was stopped after {limit_a} s in A and after {limit_b} s in B."
    list_a, list_b = [set(settings.get("quarantine") or ()) for settings in (benchmark_a, benchmark_b)]
    if list_a != list_b:
        yield (
            f"The runs have different quarantine lists ({counted(len(list_a), 'question')} in A, {len(list_b):,} "
            "in B); what is on either is treated as quarantined."
        )


def _about_run(letter: str, run: RunRecord, rows: Sequence[QuestionScore]) -> Iterator[str]:
    how_it_ended = {
        "running": "is still running: only what it has scored so far is compared.",
        **dict.fromkeys(
            get_args(Unfinished), "was stopped before its end: only what it scored until then is compared."
        ),
        "partial": "is partial: it stopped before its end, and questions that were not sent count as wrong.",
    }
    if run.status in how_it_ended:
        yield f"{letter} {how_it_ended[run.status]}"
    if REROLLED in run.tags:
        yield (
            f"{letter} is re-rolled: some questions were sent again after their answers were judged, which tends to "
            "raise its score. It cannot be compared fairly with a run that sent every question once."
        )
    if changed := run.tags.get(DATABASES_CHANGED):
        yield (
            f"Databases changed on the server while {letter} was running: {changed}. Some of its answers may be scored "
            "on the old content, others on the new."
        )
    degradation = find_degradation(row.outcome for row in rows)
    if degradation.affected:
        yield f"{letter} did not run the whole pipeline as intended. {' '.join(degradation.sentences)}"
    if models := about_models((row.outcome for row in rows), run.settings_of("pipeline")):
        yield f"{letter}: {models}"
    if lost := [row for row in rows if row.outcome.retryable]:
        yield (
            f"{letter} has no answer to {_counted(lost)} because of retryable failures; "
            "they count as wrong. Run it again before you rank."
        )


def _about_questions(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield which questions of the two runs were not judged alike, or flipped without another answer."""
    statuses = {pair.a.question.id: (pair.a.final.gold_status, pair.b.final.gold_status) for pair in pairs}
    if faulty := [id_ for id_, (in_a, in_b) in statuses.items() if in_a == in_b and in_a != "ok"]:
        yield (
            f"The gold of {_counted(faulty)} does not run, which is a fault of the benchmark and counts as wrong in "
            f"both runs: {_named(faulty)}."
        )
    if uneven := [id_ for id_, (in_a, in_b) in statuses.items() if in_a != in_b]:
        yield f"The gold of {_counted(uneven)} had different results in the two runs: {_named(uneven)}."
    if same_sql := [pair.a.question.id for pair in pairs if pair.change and pair.same_sql]:
        yield (
            f"{_counted(same_sql).capitalize()} flipped although both runs answered with the same SQL (a time-out, "
            f"another database or SQLite): {_named(same_sql)}."
        )
    if differing := [pair.a.question.id for pair in pairs if pair.a.gold_sql != pair.b.gold_sql]:
        yield f"The runs were judged by different golds on {_counted(differing)}: {_named(differing)}."


def _counted(questions: Sequence[object]) -> str:
    return counted(len(questions), "question")


def _named(ids: Sequence[str]) -> str:
    return shorten(ids, _NAMED)


def repeat_warnings(a: Sequence[RunRecord], b: Sequence[RunRecord], left_out: int) -> Iterator[str]:
    """Yield what a reader must know before trusting the numbers of several runs, in sentences."""
    for letter, runs in (("A", a), ("B", b)):
        if differing := _differing_settings(runs):
            yield (
                f"The runs of {letter} are not identical: {shorten(differing, 5)} differ. Its deviation is then not "
                "that of one system."
            )
    if len(a) != len(b):
        yield (
            f"A has {counted(len(a), 'run')} and B {len(b)}: the signs of the differences are only nearly "
            "exchangeable. The same number on both sides makes the test exact."
        )
    if left_out:
        yield f"Left out: {counted(left_out, 'question')} that not every run scored."
    for run in (*a, *b):
        if run.status != "complete":
            yield f"The run {run.run_id} is {run.status}."


def _differing_settings(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    of_runs = [{**flatten(dict(run.settings)), **run.sources} for run in runs]
    names = dict.fromkeys(name for settings in of_runs for name in settings if name != "backbone.epoch")
    return tuple(name for name in names if len({settings.get(name) for settings in of_runs}) > 1)
