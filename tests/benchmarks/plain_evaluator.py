"""An evaluator in one process as BIRD's official one works; it imports the standard library only.

    python tests/benchmarks/plain_evaluator.py PAIRS.json

PAIRS.json: a list of (path of a SQLite file, predicted SQL, gold SQL). For each pair a thread with a time limit, a new
connection, both queries, and a comparison of the sets of rows. It prints how many are right.
"""

import json
import sqlite3
import sys
import threading
from pathlib import Path

TIMEOUT_S = 30


def main() -> None:
    def judge(path: str, predicted: str, gold: str) -> None:
        connection = sqlite3.connect(path)
        try:
            rows = connection.execute(predicted).fetchall()
            right.append(set(rows) == set(connection.execute(gold).fetchall()))
        except sqlite3.Error:
            right.append(False)
        connection.close()

    right: list[bool] = []
    for pair in json.loads(Path(sys.argv[1]).read_text()):
        thread = threading.Thread(target=judge, args=pair, daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
    print(sum(right))


if __name__ == "__main__":
    main()
