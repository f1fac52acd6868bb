"""Fuzz what reads text from outside, and print how many inputs each reader took and which broke it.

    python tests/benchmarks/fuzz.py --minutes 10

Reply parsing, SQL extraction, loaders, comparison rules and the client get so many minutes each, one after the other.
Inputs are mutations of real ones. What breaks a reader: an exception that is no user error, or more than two seconds.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tasks.backbone.endpoint.chat import answer_of
from tasks.backbone.endpoint.failures import refusal_of
from tasks.backbone.endpoint.wire import GarbledAnswerError, RefusedInBodyError
from tasks.backbone.replies.format import ReplyFormats
from tasks.backbone.replies.sql_text import last_sql, read_sql
from tasks.benchmarks.descriptions import read_description_files
from tasks.benchmarks.predictions.formats import read_predictions
from tasks.benchmarks.rows import read_objects
from tasks.benchmarks.schemas import read_schemas
from tasks.core.errors import CrosscheckError
from tasks.scoring.execution.rules import bird, spider, strict
from tasks.settings.backbone import BackboneSettings
from tasks.sql.rewriting import ordering
from tasks.stages import replies
from tests.support.hostile import statements, written_out

SLOW_S = 2.0
TOKENS = (
    "{", "}", "[", "]", '"', "'", "`", "```", "```sql\n", "```json\n", "\\", "\n", "\x00", "\ud800", "\u202e", "<think>",
    "</think>", "SELECT", "FROM", "WITH", ";", "--", "/*", "*/", "sql", ":", ",", "null", "NaN", "1e400", "-1", "é", "(", ")",
    "{" * 500, "[" * 2000, "(" * 2000, "x" * 5000, "SELECT 1 UNION " * 300,
)  # fmt: skip
SEEDS = (
    '{"sql": "SELECT a FROM t WHERE b = \'c;d\'"}', '```sql\nSELECT 1\n```', 'Thus: ```json\n{"tables": ["a"], "columns": []}\n```',
    '<think>SELECT 2</think>{"reasoning": "x", "sql": "SELECT 1;"}', "The query is SELECT a, b FROM t LIMIT 3. It counts.",
    '{"choices": [{"message": {"content": "x", "reasoning": "y"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 3, '
    '"completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}}, "model": "m"}',
    '{"error": {"message": "Rate limit. Please try again in 1m30s.", "code": "rate_limit_exceeded", "param": "temperature"}}',
    '[{"question_id": 1, "db_id": "a", "question": "q", "SQL": "SELECT 1", "evidence": ""}]', "question,sql,db_id\nq,SELECT 1,a\n",
    '[{"db_id": "a", "table_names_original": ["t"], "column_names_original": [[-1, "*"], [0, "c"]], "column_types": ["text"], '
    '"primary_keys": [1], "foreign_keys": [[1, 1]]}]', '{"0": "SELECT 1\\t----- bird -----\\ta"}',
    "original_column_name,column_name,column_description,data_format,value_description\na,b,c,text,d\n",
)  # fmt: skip
FORMATS = [
    ReplyFormats.of(BackboneSettings(name="x", reply=name)).format(None)
    for name in ("json", "json_with_reasoning", "fenced")
]
TYPES = [getattr(replies, name) for name in ("SqlReply", "LinkReply", "KeywordsReply", "ConditionsReply")]


def mutated(rng: random.Random) -> str:
    """Return a real text with random changes."""
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 8)):
        place, what = rng.randint(0, len(text)), rng.random()
        if what < 0.5:
            text = text[:place] + rng.choice(TOKENS) + text[place:]
        elif what < 0.75:
            text = text[:place] + text[place + rng.randint(1, 10) :]
        else:
            text = text[:place] + rng.choice(SEEDS) + text[place:]
    return text


def parse_reply(rng: random.Random, _folder: Path) -> None:
    """Read a reply in every format as a random type."""
    text, wanted = mutated(rng), rng.choice(TYPES)
    for each in FORMATS:
        each.read(text, wanted)


HOSTILE = [written_out(sql) for _, sql in statements("sqlite")]


def extract_sql(rng: random.Random, _folder: Path) -> None:
    """Extract and parse SQL."""
    text = (
        mutated(rng) if rng.random() < 0.5 else rng.choice(HOSTILE) + rng.choice(TOKENS) + rng.choice(HOSTILE)
    )
    for found in (read_sql(text), last_sql(text), text):
        ordering(found or "", "sqlite")


def load(rng: random.Random, folder: Path) -> None:
    """Load a file as a benchmark's, as pairs, as predictions, as descriptions."""
    content = mutated(rng).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        content = content[: rng.randint(0, len(content))] + rng.randbytes(5)
    path = folder / f"file{rng.choice(('.json', '.jsonl', '.csv', '.tsv', '.sql', '.txt'))}"
    path.write_bytes(content)
    (folder / "database_description.csv").write_bytes(content)
    readers: tuple[Callable[[Path], object], ...] = (
        lambda path: list(read_objects(path)), read_schemas, lambda path: read_predictions(path),
        lambda path: read_description_files(path.parent),
    )  # fmt: skip
    for reader in readers:
        try:
            reader(path)
        except CrosscheckError as error:
            assert str(error).strip() and path.parent.name in str(error), error


CELLS = (
    None,
    0,
    1,
    -1,
    1.0,
    0.1 + 0.2,
    0.3,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "1",
    "a",
    "A",
    "\ud800",
    b"",
    b"\xff",
    2**63 - 1,
)


def compare(rng: random.Random, _folder: Path) -> None:
    """Compare tables: each equals itself, its rows may be shuffled, and columns as the rule says."""
    width, height = rng.randint(1, 6), rng.randint(0, 12)
    cells = rng.sample(CELLS, rng.randint(1, len(CELLS)))
    rows = [tuple(rng.choice(cells) for _ in range(width)) for _ in range(height)]
    shuffled = rng.sample(rows, len(rows))
    order = rng.sample(range(width), width)
    turned = [tuple(row[place] for place in order) for row in shuffled]
    assert bird(rows, shuffled) and strict(rows, rows, ordered=True) and strict(rows, shuffled, ordered=False)
    assert spider(rows, turned, ordered=False) and spider(turned, rows, ordered=False)
    other = [tuple(rng.choice(cells) for _ in range(width)) for _ in range(height)]
    assert spider(rows, other, ordered=False) == spider(other, rows, ordered=False)
    assert bird(rows, other) == bird(other, rows)
    assert not strict(rows, other, ordered=True) or strict(rows, other, ordered=False)


def answer(rng: random.Random, _folder: Path) -> None:
    """Read a server's body as an answer and as an error."""
    text = mutated(rng)
    try:
        (found, *_) = answer_of(text)
    except (GarbledAnswerError, RefusedInBodyError):
        found = None
    assert found is None or (found.text.encode() is not None and "\x00" not in found.text + found.call.model)
    wait = rng.choice(("1", "1e400", "-1", "nan", "soon", "Thu, 01 Jan 1970 00:00:00 GMT", "9" * 400, "\xff"))
    status = rng.choice((200, 301, 400, 401, 403, 404, 422, 429, 500, 599))
    refusal = refusal_of(status, {"retry-after": wait}, text, "KEY", {"temperature": "lower it"})
    assert "\n" not in refusal.message and (refusal.retry_after_s is None or 0 <= refusal.retry_after_s < 1e6)
    json.dumps(refusal.message)


TARGETS = {
    "reply parsing": parse_reply,
    "SQL extraction": extract_sql,
    "loaders": load,
    "rules": compare,
    "client": answer,
}


def main() -> int:
    """Fuzz and print; the exit code is 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    chosen = parser.parse_args()
    broken = 0
    for name in chosen.targets:
        target = TARGETS[name]
        rng, inputs, failures, slowest = random.Random(chosen.seed), 0, {}, 0.0
        deadline = time.monotonic() + 60 * chosen.minutes
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < deadline:
                state, started = rng.getstate(), time.process_time()
                try:
                    target(rng, Path(folder))
                except Exception as error:
                    where = error.__traceback__
                    while where and where.tb_next:
                        where = where.tb_next
                    place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else ""
                    failures.setdefault(f"{type(error).__name__} {place}", (str(error)[:300], state[1][:2]))
                taken = time.process_time() - started
                slowest = max(slowest, taken)
                if taken > SLOW_S:
                    failures.setdefault(f"slow: {taken:.1f} s", ("", inputs))
                inputs += 1
        broken += len(failures)
        print(f"{name}: {inputs:,} inputs, slowest {slowest:.3f} s, {len(failures)} broke it", flush=True)
        for kind, (message, _) in failures.items():
            print(f"  {kind}: {message!r}", flush=True)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
