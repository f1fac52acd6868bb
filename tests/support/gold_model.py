"""A model behind a fake API that knows the demo's gold SQL, and is wrong on the questions that a test names."""

import json
from collections.abc import Collection
from pathlib import Path

from tests.support.demo import demo_questions
from tests.support.fake_openai import Body

WRONG = json.dumps({"sql": "SELECT 'wrong'"})


def question_of(body: Body) -> str:
    """Return the question of a prompt."""
    text = "\n".join(message["content"] for message in body["messages"]).rpartition("### Question")[2]
    return text.strip().splitlines()[0]


class GoldModel:
    """Answers a request's body with the gold SQL of its question.

    Attributes:
        wrong: texts of questions that are answered wrong.
    """

    def __init__(self, home: Path, wrong: Collection[str] = ()) -> None:
        self.golds = {each["question"]: each["SQL"] for each in demo_questions(home)}
        self.wrong = wrong

    def __call__(self, body: Body) -> str:
        question = question_of(body)
        return WRONG if question in self.wrong else json.dumps({"sql": self.golds[question]})
