"""Writes a stored run as the file that BIRD's or Spider's official evaluator reads."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from flows.runtime.folders import Folders
from flows.runtime.output import write_text
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.layouts import Submission as Form
from tasks.benchmarks.layouts import layout_of
from tasks.core.errors import ConfigurationError, CrosscheckError, DataError
from tasks.results.predictions import Prediction, changed_literals, one_line, submission_text
from tasks.results.run_record import RunRecord
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.home import find_conf
from tasks.settings.load import available, load_benchmark_settings

EVALUATORS: dict[Form, str] = {
    "bird": "BIRD's evaluator (bird/llm/src of github.com/AlibabaResearch/DAMO-ConvAI, with func-timeout)",
    "lines": "Spider's test-suite evaluator (github.com/taoyds/test-suite-sql-eval, with nltk and sqlparse)",
}


@dataclass(frozen=True)
class Exported:
    """An exported submission."""

    file: str
    form: Form
    questions: int  # questions of the benchmark, which all have an entry
    answered: int  # entries with an SQL of the run
    changed: tuple[str, ...]  # ids of questions whose SQL the form cannot hold as it is
    # ids of questions whose SQL the evaluator changes before it runs it: Spider's replaces "value" by 1
    rewritten: tuple[str, ...]
    evaluator: str  # which evaluator reads it
    command: str  # how to run that evaluator; "" where the benchmark lacks gold SQL
    gold_file: str  # the gold SQL, written for the evaluator; "" where the benchmark's own file has it
    score_command: str  # how to score the file with Crosscheck


def export_submission(run: RunRecord, target: Path, folders: Folders, form: Form | None) -> Exported:
    """Write the final SQL of every question; a question of the benchmark that the run left out has no answer.

    Both evaluators pair predictions with the gold by position, so every question of the benchmark has its entry.
    Without a form, the benchmark's own is written.
    """
    try:
        benchmark = folders.benchmark_of(run)
    except CrosscheckError as error:
        raise DataError(
            f"The order of the questions is that of the benchmark's file, which is needed: {error}"
        ) from None
    if benchmark.digest != run.question_sha256:
        raise DataError(
            f"{benchmark.question_files[0]} is not the file that run {run.run_id} was made with: its "
            "sha256 differs. Name the folder with the run's revision with --data."
        )
    sqls = {row.question.id: row.outcome.sql for row in run.rows}
    written = form or layout_of(run.layout).submission
    predictions = [
        Prediction(question.id, question.database_id, sqls.get(question.id))
        for question in benchmark.questions
    ]
    gold, made = _gold(written, target, benchmark)
    write_text(submission_text(predictions, written), target, "--submission", "file")
    return Exported(
        file=str(target),
        form=written,
        questions=len(predictions),
        answered=sum(bool(prediction.sql) for prediction in predictions),
        changed=changed_literals(predictions) if written == "lines" else (),
        rewritten=tuple(
            prediction.question_id
            for prediction in predictions
            if written == "lines" and "value" in (prediction.sql or "")
        ),
        evaluator=EVALUATORS[written],
        command=_evaluator_command(written, target, benchmark, gold) if gold else "",
        gold_file=str(gold) if made else "",
        score_command=_score_command(run, target, benchmark),
    )


def _gold(form: Form, target: Path, benchmark: Benchmark) -> tuple[Path | None, bool]:
    """Return the file of gold SQL that an evaluator reads, and whether it was written; None without all gold SQL.

    BIRD publishes it as dev.sql, Spider as dev_gold.sql. Where the benchmark has no such file, it is written beside
    the submission: a SQL, a tab and the database per line.
    """
    published = ("dev_gold.sql",) if form == "lines" else ("dev_gold.sql", "dev.sql")
    for path in map(benchmark.folder.joinpath, published):
        if path.exists():
            return path, False
    gold = {**benchmark.gold, **benchmark.written_gold}
    if any(question.id not in gold for question in benchmark.questions):
        return None, False
    lines = (f"{one_line(gold[question.id])}\t{question.database_id}\n" for question in benchmark.questions)
    path = target.with_name(f"{target.stem}_gold.sql")
    text = "".join(lines)
    if path.exists() and path.read_bytes() != text.encode():
        raise ConfigurationError(
            f"--submission {target}: the gold SQL is written to {path}, which exists with another content. Move it "
            "away, or give --submission another name."
        )
    write_text(text, path, "--submission", "file")
    return path, True


def _evaluator_command(form: Form, target: Path, benchmark: Benchmark, gold: Path) -> str:
    folder, settings = benchmark.folder, benchmark.settings
    databases = folder / settings.database_folders[0]
    if form == "lines":
        # exact set match reads the schemas from a tables file, the comparison of results does not
        exact = ("--table", folder / settings.tables, "--etype", "all")
        parts = (
            "python3", "evaluation.py", "--gold", gold, "--pred", target, "--db", databases,
            *(exact if settings.tables else ("--etype", "exec")),
        )  # fmt: skip
        return shlex.join(map(str, parts))
    # the evaluator reads predict_dev.json and dev_gold.sql, of the folders that it is given (they end with a slash)
    evaluate = (
        "python3", "-u", "evaluation.py", "--db_root_path", f"{databases}/",
        "--predicted_sql_path", "submission/", "--data_mode", "dev", "--ground_truth_path", "submission/",
        "--num_cpus", 4, "--mode_gt", "gt", "--mode_predict", "gpt", "--diff_json_path",
        benchmark.question_files[0], "--meta_time_out", settings.timeout_s,
    )  # fmt: skip
    copy = (
        f"mkdir -p submission && cp {shlex.quote(str(target))} submission/predict_dev.json "
        f"&& cp {shlex.quote(str(gold))} submission/dev_gold.sql"
    )
    return f"{copy} && {shlex.join(map(str, evaluate))}"


def _score_command(run: RunRecord, target: Path, benchmark: Benchmark) -> str:
    name = benchmark.settings.name
    if name not in available(
        find_conf(), "benchmark"
    ):  # a benchmark of one's own: its file is beside the others
        file = benchmark.folder / f"{name}.yaml"
        name = str(file) if file.is_file() else f"PATH/{name}.yaml"
    parts = ["crosscheck", "score", "--benchmark", name, "--predictions", str(target)]
    if len(run.rows) < len(benchmark.questions):
        parts += ["--questions", _ranges([row.question.id for row in run.rows])]
    return shlex.join([*parts, *changed_settings(name, benchmark.settings)])


def changed_settings(name: str, settings: BenchmarkSettings) -> list[str]:
    """Return what `--set` needs to read a benchmark's settings as a run had them: its databases, its dialect."""
    try:
        named = load_benchmark_settings(find_conf(), name).model_dump(mode="json")
    except ConfigurationError:  # a file of the user's, which the run does not name
        return []
    return [
        part
        for key, value in settings.model_dump(mode="json").items()
        if value != named.get(key)
        for part in ("--set", f"benchmark.{key}={json.dumps(value, ensure_ascii=False)}")
    ]


def _ranges(ids: list[str]) -> str:
    """Return ids as `--questions` reads them, numbers that follow each other as a range.

    >>> _ranges(["0", "1", "2", "7", "b"])
    '0-2,7,b'
    """
    groups: list[list[str]] = []
    for name in ids:
        last = groups[-1] if groups else []
        if last and name.isdecimal() and last[-1].isdecimal() and int(name) == int(last[-1]) + 1:
            last.append(name)
        else:
            groups.append([name])
    return ",".join(group[0] if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)
