"""A harness of fifty lines: an asyncio loop on the OpenAI SDK, SQL compared by sqlite3.

    python tests/benchmarks/plain_harness.py QUESTIONS.json BASE_URL IN_FLIGHT

QUESTIONS.json: a list of objects with `prompts` (sent one after the other), `path` of a SQLite file and `gold`. The reply
to the last prompt is judged. It prints how many are right. Without retries, cache, limits on SQL, records and pages.
"""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI


def is_right(reply: str, question: dict[str, Any]) -> bool:
    """Return whether the SQL of a reply has the gold's rows."""
    connection = sqlite3.connect(question["path"])
    try:
        sql = json.loads(reply)["sql"]
        return set(connection.execute(sql)) == set(connection.execute(question["gold"]))
    except sqlite3.Error:
        return False
    finally:
        connection.close()


async def main(questions: list[dict[str, Any]], base_url: str, in_flight: int) -> None:
    """Ask and judge all questions, `in_flight` at a time."""
    client, slots = AsyncOpenAI(base_url=base_url, api_key="none"), asyncio.Semaphore(in_flight)

    async def ask(question: dict[str, Any]) -> bool:
        text = ""
        for prompt in question["prompts"]:
            async with slots:
                reply = await client.chat.completions.create(
                    model="local", messages=[{"role": "user", "content": prompt}]
                )
            text = reply.choices[0].message.content or ""
        return is_right(text, question)

    print(sum(await asyncio.gather(*map(ask, questions))))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], int(sys.argv[3])))
