"""What Crosscheck promises, and how many faults the test of each promise injects.

`python -m tests.promises` runs the tests and prints what they counted; the table of docs/promises.md is filled from
here. A test that counts another number than is declared fails, and so does the page's.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A promise and its test.

    Attributes:
        text: what holds, and under which faults.
        faults: number of faults that the test injects.
        test: the test's file in `tests/`.
        answers: whether paid answers are involved, so that lost and repeated ones are counted.
        fuzzed: whether the faults are built by hypothesis, so that `faults` is the least number.
        most_twice: most replies that may be bought twice: requests that several evaluations send at the same moment.
    """

    text: str
    faults: int
    test: str
    answers: bool = False
    fuzzed: bool = False
    most_twice: int = 0


def table_of_promises() -> str:
    """Return the table of docs/promises.md."""
    lines = [
        "| promise | faults | survived | answers lost | bought twice | test |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for each in PROMISES.values():
        twice = f"at most {each.most_twice}" if each.most_twice else "0"
        answers = f"0 | {twice}" if each.answers else "- | -"
        faults = f"{'at least ' if each.fuzzed else ''}{each.faults:,}"
        lines.append(f"| {each.text} | {faults} | all | {answers} | `{each.test}` |")
    return "\n".join(lines)


PROMISES: dict[str, Promise] = {
    "server": Promise(
        "A model server of any protocol that misbehaves (status, headers, body, usage, timing, lost connections) "
        "ends a call within the bound of the settings; its answers are stored and not requested again",
        1200,
        "promises/test_server.py",
        answers=True,
        fuzzed=True,
    ),
    "run": Promise(
        "A run on such a server ends within a bound of the settings, each question answered or failed by itself; the "
        "next run sends only questions without an answer",
        320,
        "promises/test_server.py",
        answers=True,
        fuzzed=True,
    ),
    "patience": Promise(
        "An endpoint that always fails, from its first request on or later: a call is at most 7 requests with the "
        "default settings",
        12,
        "promises/test_server.py",
    ),
    "stores": Promise(
        "Each store cut, overwritten, emptied, replaced by another program's file or by one of a newer release is "
        "moved aside and recreated, or named in one message; replies in an intact store stay",
        87,
        "promises/test_stores.py",
        answers=True,
    ),
    "sql": Promise(
        "Hostile SQL on SQLite, executed, scored, parsed and shown: the database's bytes stay, no file is made, a "
        "query ends within 0.5 s of its deadline, a worker stays within 512 MiB, the next query is right",
        662,
        "promises/test_hostile_sql.py",
    ),
    "paths": Promise(
        "Hostile SQL as a system's predictions, as gold, as a model's answer and on a run's page: the commands do no "
        "more with it",
        336,
        "promises/test_paths_of_sql.py",
    ),
    "duckdb": Promise(
        "Hostile SQL on DuckDB, executed, scored and as gold: nothing changes, nothing outside is read, the next query "
        "is right",
        285,
        "tasks/database/test_engines_hostile.py",
    ),
    "postgresql": Promise(
        "The same on PostgreSQL, with its roles, sequences and large objects",
        481,
        "tasks/database/test_engines_hostile.py",
    ),
    "mysql": Promise(
        "The same on MariaDB, through the engine of MySQL", 412, "tasks/database/test_engines_hostile.py"
    ),
    "disk": Promise(
        "A disk that is full or read-only: each store, made or used on it, works or reports it in one message, and is "
        "intact when there is space again; the replies of that time are stored then; commands name what they cannot "
        "write",
        27,
        "promises/test_machine.py",
        answers=True,
    ),
    "clock": Promise(
        "A clock that jumps by years, forwards, backwards or back and forth: no call is held up, nothing stored "
        "is lost",
        14,
        "promises/test_machine.py",
        answers=True,
    ),
    "query": Promise(
        "`crosscheck query`, used to read files, attach, copy, install, load, change settings or results, or reach the "
        "network: only the warehouse is read, nothing is changed, no file is created",
        111,
        "promises/test_query.py",
    ),
    "up": Promise(
        "`crosscheck up`: a port that is taken, a server that dies once or always, a terminal that closes, a signal: "
        "survived, or reported with what to do; no server is left behind",
        8,
        "promises/test_up.py",
    ),
    "death": Promise(
        "An evaluation that is killed (SIGKILL), terminated, interrupted twice, stopped for a while or left by its "
        "terminal goes on with the same command, to the table of an undisturbed run",
        5,
        "promises/test_death.py",
        answers=True,
    ),
    "killed": Promise(
        "Re-runs, nights and cleanings that are killed (SIGKILL) go on with the same command, to the result of an "
        "undisturbed one",
        3,
        "promises/test_death.py",
        answers=True,
    ),
    "conversations": Promise(
        "An agent's conversations whose process is killed (SIGKILL) go on in the middle with the same command, to the "
        "table of an undisturbed run",
        8,
        "promises/test_agents.py",
        answers=True,
    ),
    "agents": Promise(
        "A hostile model in an agent's conversation (endless loops, 10,000 calls in a turn, arguments of 50 MB, no "
        "JSON, unknown tools, SQL that writes or does not end, obeyed instructions in data, text alone): told and "
        "counted; the question ends within its limits, nothing is changed, nothing outside the database is read",
        18,
        "promises/test_agents.py",
    ),
    "batches": Promise(
        "Processes that submit batches of requests are killed (SIGKILL) while they submit, wait and collect: the same "
        "command collects what was paid for, on both protocols",
        8,
        "promises/test_batch_death.py",
        answers=True,
    ),
    "launcher": Promise(
        "An evaluation in shards that is interrupted, or whose own process is killed, goes on with the same command; "
        "what its shards answered meanwhile is kept",
        2,
        "flows/evaluate/test_shards.py",
        answers=True,
    ),
    "machine": Promise(
        "A machine that dies with its worker and shards: the evaluation goes on with the others",
        1,
        "flows/evaluate/test_shards.py",
        answers=True,
    ),
    "together": Promise(
        "Evaluations at once on the same stores, two of one pipeline and one of another: each ends as it does alone; "
        "of 8 requests, the 4 that two of them send are bought twice if they are sent at the same moment, and a later "
        "evaluation buys none",
        3,
        "promises/test_death.py",
        answers=True,
        most_twice=4,
    ),
    "secrets": Promise(
        "A key in the environment, settings, address and proxy is in no written file (stores, recordings, "
        "pages, logs, Prefect's database), in no message, process title or core dump",
        28,
        "promises/test_secrets.py",
    ),
    "texts": Promise(
        "Any text of a benchmark, model or error (lone surrogates, NUL, control and bidi characters, markup, "
        "templates, shell, very long lines) is text in every store, index, page and artifact, and no other record of "
        "its group is lost",
        96,
        "promises/test_texts.py",
        answers=True,
    ),
    "input": Promise(
        "Wrong options, settings, files and names: exit code 2 before any request is sent, one message that names the "
        "place, no traceback, nothing executed",
        134,
        "promises/test_bad_input.py",
    ),
}
