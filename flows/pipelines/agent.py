"""An agent: a model in a loop with tools that read the database, until it submits a query or a limit is reached."""

from flows.pipelines.pipeline import Context, pipeline
from flows.pipelines.rsl_sql import link_both_ways
from tasks.core.errors import BackboneError
from tasks.core.outcome import NOT_SUBMITTED, Candidate
from tasks.core.records import Question
from tasks.settings.pipeline import AgentSettings
from tasks.stages import prompts
from tasks.stages.agent import Conversation, Spending, turn
from tasks.stages.agent_tools import TEMPLATE, Toolbox, offered
from tasks.stages.question_run import current_question_run

Agent = Context[AgentSettings]


@pipeline(AgentSettings, name="agent")
async def agent(question: Question, context: Agent) -> str | None:
    """Let the model take turns until it submits, or a limit is reached; return what it submitted, else its best SQL."""
    settings, runner, backbone = context.settings, context.runner, context.backbone
    view = await context.full_view(question, descriptions=settings.descriptions)
    toolbox = Toolbox(view, context.values, settings.limits.of_tools, settings.tool_mode)
    conversation = await open_conversation(question, toolbox, context)
    while not conversation.submitted:
        spending = Spending.of(conversation, current_question_run().records, settings.limits)
        if spending.reached:
            context.record.note(f"{NOT_SUBMITTED}{spending.reached}")
            break
        try:
            next_turn = await turn(conversation, spending.notice, spending.allowed, toolbox, runner, backbone)
        except BackboneError as error:
            # A fatal error stops the run, a transient one may be retried; without an answer there is nothing to return.
            if error.fatal or error.transient or conversation.answer is None:
                raise
            context.record.note(f"{NOT_SUBMITTED}{error}")
            break
        conversation = conversation.then(next_turn)
        context.record.candidates.append(Candidate(f"turn_{len(conversation.turns)}", next_turn.sql))
    return conversation.answer


async def open_conversation(question: Question, toolbox: Toolbox, context: Agent) -> Conversation:
    """Open the conversation as `pipeline.start` says: with the question alone, the schema, or RSL-SQL's link.

    The link makes a preliminary SQL, which the conversation starts with.
    """
    settings = context.settings
    view = None
    sql = None
    if settings.start != "question":
        view = await context.view_for(question, descriptions=settings.descriptions)
    if view and settings.start == "link":
        sql, link = await link_both_ways(question, view, context)
        context.record.sql("preliminary_sql", sql)
        view = view.reduced_to(link)
    opening = prompts.messages(
        TEMPLATE,
        dialect=toolbox.view.dialect_name,
        question=question,
        parts=view.render() if view else None,
        reduced=view is not None and view.schema is not toolbox.schema,
        sql=sql,
        rules=settings.prompt.rules,
        tools=offered(toolbox.view.dialect_name) if toolbox.mode == "text" else (),
    )
    return Conversation.opened(opening, sql)
