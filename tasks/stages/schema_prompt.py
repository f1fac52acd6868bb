"""The opening messages of a prompt that shows a schema."""

from dataclasses import replace
from typing import Any

from tasks.backbone.protocol import Message
from tasks.database.schema_view import SchemaView
from tasks.stage_runs import prompts

_TASK = "### Task\n"


def schema_messages(template: str, /, view: SchemaView, **variables: Any) -> tuple[Message, ...]:
    """Render a template with a schema, as the prompt settings of the view say.

    With `prompt.task` "last", every prompt about a schema begins with the same system message and the schema; what the
    template's own system message says begins its section "Task". Providers then serve the schema from their prefix
    caches to every stage that shows it.

    The message notes how much of it other questions about the database have in common.

    Args:
        template: name of a template in `conf/prompts`.
        view: the schema and how it is shown.
        variables: the other variables of the template.
    """
    parts, dialect = view.render(), view.dialect_name
    opening = prompts.messages(
        template,
        dialect=dialect,
        parts=parts,
        demonstrations_first=view.prompt.demonstrations_first,
        **variables,
    )
    last = view.prompt.task == "last"
    if not (last or (view.common and not view.prompt.demonstrations_first)):
        return opening
    system, user = opening
    database = prompts.section("database", parts).strip()
    before, shown, after = user.content.partition(database)
    if not shown:  # a template of the user's own that shows no schema
        return opening
    if not last:
        return system, replace(user, shared=len(before) + len(database))
    rest = "\n\n".join(part for each in (before, after) if (part := each.strip("\n")))
    task = rest.replace(_TASK, f"{_TASK}{system.content.strip()} ", 1)
    return (
        replace(system, content=prompts.section("any_task", dialect).strip() + "\n"),
        replace(user, content=f"{database}\n\n{task}\n", shared=len(database) if view.common else 0),
    )
