"""What runs inside the workers must stay light: a killed worker has to be replaced within a moment."""

import subprocess
import sys

import pytest

HEAVY = {"sqlglot", "pydantic", "numpy", "pandas", "prefect", "mlflow", "asyncio"}


@pytest.mark.parametrize(
    "module",
    [
        "execution.judge_job",
        "execution.rules",
        "execution.run_times",
        "metrics.rules",
    ],
)
def test_worker_modules_import_nothing_heavy(module: str) -> None:
    code = f"import sys, tasks.scoring.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())
