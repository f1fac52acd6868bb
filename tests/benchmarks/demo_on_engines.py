"""The demo benchmark on four engines, side by side: `python tests/benchmarks/demo_on_engines.py --help`.

Copies the demo's databases with `crosscheck benchmarks load`, evaluates the default pipeline with the offline backbone on each,
and prints the totals and every question whose verdict differs from that on SQLite. The demo's gold SQL is SQLite's, so
sqlglot translates it; a translation that fails counts as wrong. Takes about five minutes.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(sys.executable).parent


def crosscheck(*arguments: str) -> Any:
    """Run a command and return its JSON."""
    done = subprocess.run(
        [HERE / "crosscheck", *arguments, "--json"], stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout)


def evaluated(url: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Evaluate on the databases of a URL; return the summary, and the questions by id."""
    settings = (f"benchmark.url={url}", "benchmark.transpile_gold=true", "benchmark.allow_writable_role=true")
    there = [part for setting in settings for part in ("--set", setting)] if url else []
    summary = crosscheck("evaluate", *there)
    rows = crosscheck(
        "query",
        "SELECT question_id, correct, status, error, gold_status, sql FROM questions "
        f"WHERE run_id = '{summary['run_id']}'",
    )
    return summary, {row["question_id"]: row for row in rows["rows"]}


def main() -> None:
    """Copy, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", default="127.0.0.1:5432", help="its address; the owner is postgres")
    parser.add_argument("--mysql", default="127.0.0.1:3306", help="its address; the owner is root")
    parser.add_argument("--home", type=Path, default=Path(".crosscheck"), help="working folder")
    given = parser.parse_args()
    os.environ["CROSSCHECK_HOME"] = str(given.home.resolve())
    servers = {
        "PostgreSQL": f"postgresql://postgres@{given.postgresql}",
        "MariaDB": f"mysql://root@{given.mysql}",
    }
    urls = {"SQLite": "", "DuckDB": f"duckdb:///{given.home.resolve()}/duck/{{database}}.duckdb"}
    crosscheck("benchmarks", "load", "--to", urls["DuckDB"])
    for name, owner in servers.items():
        urls[name] = f"{owner}/demo_{{database}}"
        crosscheck("benchmarks", "load", "--to", urls[name])
    found = {name: evaluated(url) for name, url in urls.items()}
    base = found["SQLite"][1]
    for name, (summary, rows) in found.items():
        broken = sum(row["gold_status"] != "ok" for row in rows.values())
        score = f"{summary['correct']} of {summary['total']} right"
        print(f"{name:10} {summary['engine']:18} {score}, {broken} golds fail")
        for question, row in rows.items():
            if row["correct"] != base[question]["correct"]:
                why = "gold fails" if row["gold_status"] != "ok" else row["error"] or "other result"
                print(f"  {question}: {'right' if row['correct'] else 'wrong'} here, {why[:150]}")


if __name__ == "__main__":
    main()
