r"""How long the same evaluation takes once more, and once more after failures. A script, not a test:

    python tests/benchmarks/speed_of_a_second_run.py [--questions 1534] [--failed 50] [--in-flight 128] --data FOLDER

A benchmark of as many questions is made of Spider dev's, each question after the first round with a number behind it.
Against a local API that answers at once, `rsl-sql` evaluates it three times: the API closes the connection of every
request of some questions, which fail; answers them, so that only these are asked again; and is not asked at all. It
prints of each command the seconds, the seconds of CPU of it and of Prefect's server, and the paid calls.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.parts import local_backbone, options_of
from tests.benchmarks.speed_of_an_evaluation import measure
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI

FAILING = "Will this fail?"


def synthetic(data: Path, folder: Path, questions: int, failing: int) -> Path:
    """Make a benchmark in Spider's layout; return its YAML file."""
    spider, target = data / "spider", folder / "data" / "many"
    target.mkdir(parents=True)
    for name in ("database", "tables.json", "train.json", "train_gold.sql"):
        (target / name).symlink_to((spider / name).resolve())
    there = {path.parent.name for path in (spider / "database").glob("*/*.sqlite")}
    known = [each for each in json.loads((spider / "dev.json").read_text()) if each["db_id"] in there]
    made: list[dict[str, Any]] = []
    for number in range(questions):
        suffix = f" ({number // len(known) + 1})" if number >= len(known) else ""
        suffix += f" {FAILING}" if number < failing else ""
        made.append(
            {**known[number % len(known)], "question": known[number % len(known)]["question"] + suffix}
        )
    (target / "dev.json").write_text(json.dumps(made))
    file = folder / "many.yaml"
    settings = {"layout": "spider", "folder": "many", "questions": "dev.json", "tables": "tables.json"}
    settings |= {"databases": "database", "train": "train.json", "train_gold": "train_gold.sql"}
    settings |= {"revision": "1.0", "rule": "spider", "timeout_s": 60, "description": "Spider dev"}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--questions", type=int, default=1534)
    options.add_argument("--failed", type=int, default=50)
    options.add_argument("--in-flight", type=int, default=128)
    options.add_argument("--data", default="data", help="folder of the benchmarks' files")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        server.keep = False
        broken = True

        def answer(body: dict[str, Any]) -> str:
            if broken and FAILING in str(body["messages"]):
                raise ConnectionError
            return '{"sql": "SELECT 1"}'

        server.answer = answer
        kept = Path(folder)
        benchmark = synthetic(Path(given.data), kept, given.questions, given.failed)
        backbone = local_backbone(kept, server.base_url, concurrency=given.in_flight, retries=0)
        command = CommandLine(kept / "home")
        what = ("--backbone", backbone, "--benchmark", str(benchmark), "--data", str(kept / "data"))
        arguments = ("evaluate", "--pipeline", "rsl-sql", *what, "--json", "--again")
        for what in ("first run", "failed questions asked again", "second run"):
            ran = measure(command, *arguments)
            broken = False
            print(
                f"{what:30} {ran.seconds:6.1f} s, CPU {ran.cpu_s:6.1f} s, Prefect's server {ran.server_cpu_s:5.1f} s; "
                f"{ran.result['cost']['calls']} calls, {ran.result['questions']} questions",
                flush=True,
            )


if __name__ == "__main__":
    main()
