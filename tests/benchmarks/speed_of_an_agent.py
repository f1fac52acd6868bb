r"""What turns of an agent cost besides the model's own time, and what is stored of them. A script, not a test:

    python tests/benchmarks/speed_of_an_agent.py --limit 500 --turns 10 --latency 1 --in-flight 128 --data FOLDER

Against a local API whose model names the tables, runs queries and submits in the last turn, it prints the time and the
processor time of all processes of an evaluation, and of the same command once more with every turn stored;
and the bytes that a turn takes in the store of stage results and in the reply cache, the mean and the most.
"""

import json
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.parts import local_backbone, options_of, timed
from tests.support.command_line import CommandLine
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, tool_calls

QUERY = (
    "WITH RECURSIVE n(i) AS (SELECT {0} UNION ALL SELECT i + 1 FROM n LIMIT 15) "
    "SELECT i, 'some text of a value ' || i AS name, i * 3 AS amount FROM n"
)
SIZES = {"stages.sqlite": ("entry", "content"), "replies.sqlite": ("reply", "request")}


def model(turns: int, body: Body) -> Behaviour:
    """Return the tool call of a turn."""
    turn = 1 + sum(message["role"] == "assistant" for message in body["messages"])
    if turn == 1:
        return tool_calls(("tables", "{}"))
    sql = QUERY.format(turn) if turn < turns else "SELECT 1"
    return tool_calls(("run_sql" if turn < turns else "submit", json.dumps({"sql": sql})))


def evaluate(name: str, command: CommandLine, turns: int, *arguments: str) -> None:
    """Run a command, and print its times."""
    ran = timed(command.command(*arguments), command.all_of_environment, command.cwd)
    scored = json.loads(ran.out)["scored"]
    print(f"{name:12} {scored} questions of {turns} turns, {ran.seconds:6.1f} s, CPU {ran.cpu_s:6.1f} s, "
          f"{1000 * ran.cpu_s / (scored * turns):.2f} ms a turn", flush=True)  # fmt: skip


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--benchmark", default="spider-dev")
    parser.add_argument("--data", default=os.environ.get("CROSSCHECK_DATA", ""))
    parser.add_argument("--limit", default="500")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--in-flight", type=int, default=128)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        server.respond = lambda body: model(given.turns, body)
        server.latency, server.keep = given.latency, False
        settings = {"response_mode": "text", "concurrency": given.in_flight}
        backbone = local_backbone(Path(folder), server.base_url, **settings)
        command = CommandLine(Path(folder) / "home")
        words = (
            "evaluate", "--json", "--again", "--benchmark", given.benchmark, "--data", given.data,
            "--backbone", backbone, "--pipeline", "agent", "--limit", given.limit,
            "--set", f"pipeline.limits.turns={given.turns + 3}",
        )  # fmt: skip
        evaluate("first", command, given.turns, *words)
        for name, (table, column) in SIZES.items():
            with closing(sqlite3.connect(command.home / name)) as connection:
                sizes = f"SELECT count(*), avg(length({column})), max(length({column})) FROM {table}"
                count, mean, most = connection.execute(sizes).fetchone()
            print(f"{name:16} {count:,} turns, {mean:,.0f} bytes a turn, at most {most:,}")
        evaluate("once more", command, given.turns, *words)


if __name__ == "__main__":
    main()
