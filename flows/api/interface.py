"""Public interface for Python programs, notebooks and extensions: `from crosscheck import ...`.

Everything else in `flows` and `tasks` may change between releases.

The functions `answer`, `available`, `compare`, `evaluate`, `noise`, `plot`, `predictions`, `query`, `rerun`, `runs`,
`score`, `score_agent` and `sweep` are the methods of a `Crosscheck` with the default working folder and data folder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flows.api.crosscheck import Crosscheck
from flows.evaluate.score_agent import AgentDatabase
from flows.pipelines.one_call import few_shot
from flows.pipelines.pipeline import Context, pipeline
from tasks.backbone.kind import BackboneKind
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Backbone, Message, Reply, Request, Tool, request_key
from tasks.backbone.replies.format import ReplyFormat
from tasks.backbone.replies.json_text import Reading, is_sql
from tasks.benchmarks.layouts import Layout, Split
from tasks.core.errors import BackboneError, CrosscheckError
from tasks.core.outcome import Call, ToolCall, Usage
from tasks.core.records import Answer, Question
from tasks.database.engine import Connection, Engine
from tasks.results.comparison import Comparison
from tasks.results.run_record import RunRecord
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, Ratio
from tasks.settings.backbone import BackboneSettings
from tasks.settings.pipeline import FewShotSettings, PipelineSettings
from tasks.stages.replies import SqlReply, StageReply, sql_answer
from tasks.stages.stage import stage

if TYPE_CHECKING:
    from flows.evaluate.answering import DatabaseAnswer
    from flows.matrix.matrix import Sweep

_RETURNED = {"DatabaseAnswer": "flows.evaluate.answering", "Sweep": "flows.matrix.matrix"}
"""Types that only methods return, by their modules, whose import would take as long as that of all others."""


def __getattr__(name: str) -> Any:
    if name in _RETURNED:
        return getattr(import_module(_RETURNED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Run = RunRecord
_default = Crosscheck()
answer = _default.answer
available = _default.available
compare = _default.compare
evaluate = _default.evaluate
noise = _default.noise
plot = _default.plot
predictions = _default.predictions
query = _default.query
rerun = _default.rerun
runs = _default.runs
score = _default.score
score_agent = _default.score_agent
sweep = _default.sweep

__all__ = [
    "AgentDatabase", "Answer", "Backbone", "BackboneError", "BackboneKind", "BackboneSettings", "Call",
    "Comparison", "Connection", "Context", "Crosscheck", "CrosscheckError", "DatabaseAnswer", "Engine",
    "FewShotSettings", "Layout", "Measurement", "Message", "MeteredBackbone", "PipelineSettings", "Question",
    "Ratio", "Reading", "Reply", "ReplyFormat", "Request", "Run", "RunRecord", "ScoredRun", "Split",
    "SqlReply", "StageReply", "Sweep", "Tool", "ToolCall", "Usage", "answer", "available", "compare",
    "evaluate", "few_shot", "is_sql", "metric", "noise", "pipeline", "plot", "predictions", "query",
    "request_key", "rerun", "runs", "score", "score_agent", "sql_answer", "stage", "sweep",
]  # fmt: skip
