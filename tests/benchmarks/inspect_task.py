"""The questions of `beside_inspect_ai.py` as a task of inspect_ai, which runs it in an environment of its own."""

import json
import os
import sqlite3
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate


@scorer(metrics=[accuracy()])
def execution_accuracy():
    """Compare the rows of both queries as sets."""

    async def score(state: TaskState, target: Target) -> Score:
        connection = sqlite3.connect(state.metadata["path"])
        try:
            sql = json.loads(state.output.completion)["sql"]
            right = set(connection.execute(sql)) == set(connection.execute(target.text))
        except sqlite3.Error:
            right = False
        connection.close()
        return Score(value=right)

    return score


@task
def text_to_sql() -> Task:
    """Return the task of the questions in the file that QUESTIONS names."""
    questions = json.loads(Path(os.environ["QUESTIONS"]).read_text(encoding="utf-8"))
    samples = [
        Sample(input=question["prompt"], target=question["gold"], metadata={"path": question["path"]})
        for question in questions
    ]
    return Task(dataset=samples, solver=generate(), scorer=execution_accuracy())
