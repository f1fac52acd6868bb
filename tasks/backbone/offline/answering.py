"""Messages in, the text of a reply out."""

import json
import re
from collections.abc import Sequence

from tasks.backbone.offline.correcting import correct
from tasks.backbone.offline.decomposing import decomposed, with_plain_examples
from tasks.backbone.offline.describing import describe
from tasks.backbone.offline.plain_replies import plain_reply, shows_reasons
from tasks.backbone.offline.reading import Prompt, read_prompt
from tasks.backbone.offline.replies import conditions_of, keywords_of, link_of
from tasks.backbone.offline.selecting import select
from tasks.backbone.offline.writing import write_sql
from tasks.backbone.protocol import Message


def answer(messages: Sequence[Message]) -> str:
    """Return the reply to a conversation: as JSON text, or as plain text where that is asked for.

    A prompt without a schema or a question gets an empty answer of the kind asked for, never an exception.
    """
    if (sub_task := decomposed(messages)) is not None:
        return sub_task
    prompt = read_prompt(with_plain_examples(messages))
    if (plain := plain_reply(messages, prompt)) is not None:
        return plain
    if shows_reasons(messages):
        return json.dumps({"sql": correct(prompt)}, ensure_ascii=False)
    return json.dumps(_reply(prompt), ensure_ascii=False)


def _reply(prompt: Prompt) -> dict[str, object]:
    """Return the object asked for."""
    if prompt.asked == "link":
        link = link_of(prompt)
        return {"tables": list(link.tables), "columns": [str(column) for column in link.columns]}
    if prompt.asked == "keywords":
        return {"sql_keywords": list(keywords_of(prompt))}
    if prompt.asked == "conditions":
        return {"conditions": list(conditions_of(prompt))}
    if prompt.asked == "descriptions":
        return {"descriptions": {one.column: one.sentence for one in describe(prompt)}}
    if len(prompt.attempts) > 1:
        return {"sql": select(prompt)}
    if prompt.attempts or prompt.earlier:
        return {"sql": correct(prompt)}
    return {"sql": re.sub(r"\s+", " ", write_sql(prompt)).strip()}
