"""Several candidates per question: what is asked, what is paid, and which one is selected."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flows.evaluate.demonstration_search import QuestionExtras
from flows.evaluate.exchanges import record
from flows.evaluate.preparation import check_candidates
from flows.evaluate.runner import QuestionInputs, RerunSpec, Resources
from flows.pipelines.candidates import Candidates
from flows.pipelines.pipeline import Context
from flows.prefect import stage_task_runs as task_runs
from flows.runtime.control import Control, Progress
from tasks.backbone.endpoint.auto_mode import PROBE
from tasks.backbone.metered import SAMPLES_PER_CANDIDATE, MeteredBackbone
from tasks.core.errors import ConfigurationError
from tasks.core.outcome import Outcome
from tasks.core.records import Demonstration, Question
from tasks.database.database import Database
from tasks.scoring.candidates import is_candidate
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import PipelineSettings
from tasks.stages.candidates import vote
from tests.support.demo import write_backbone
from tests.support.fake_openai import Body, FakeOpenAI, error, reply
from tests.support.prefect_home import in_flow
from tests.support.stage_bench import ENDLESS, Bench

pytestmark = pytest.mark.slow

THREE, TWO, NONE, BROKEN = (
    "SELECT name FROM museum",
    "SELECT name FROM museum WHERE city IS NOT NULL",
    "SELECT name FROM museum WHERE id = 9",
    "SELECT nam FROM museum",
)
ALSO_THREE = "SELECT name FROM museum ORDER BY name"
QUESTIONS = (
    Question("1", "Which museums are there?", "museum"),
    Question("2", "Name all museums.", "museum"),
)


SettingsOf = Callable[..., EvaluationSettings]
Ask = Callable[..., Awaitable[list[Outcome]]]


def candidate_of(body: Body) -> int:
    """Which candidate a request writes, from 0: its seed moves on with the sample index."""
    return int(body["seed"]) // SAMPLES_PER_CANDIDATE


@dataclass
class Model:
    """A scripted model at a local server.

    Attributes:
        server: the server.
        sqls: what the candidates are, by place.
        better: which of two shown queries is better.
        merged: what is written from several.
    """

    server: FakeOpenAI
    sqls: Sequence[str] = (THREE, TWO, THREE, NONE, BROKEN, ALSO_THREE, TWO, THREE)
    better: Callable[[str], int] = lambda prompt: 1
    merged: str = THREE
    comparisons: list[str] = field(default_factory=list)

    def answer(self, body: Body) -> str:
        prompt = str(body["messages"][-1]["content"])
        if '"better"' in prompt:
            self.comparisons.append(prompt)
            return json.dumps({"better": self.better(prompt)})
        if "Several queries were written" in prompt:
            self.comparisons.append(prompt)
            return json.dumps({"sql": self.merged})
        return json.dumps({"sql": self.sqls[candidate_of(body) % len(self.sqls)]})

    @property
    def asked(self) -> list[tuple[int, float]]:
        """Candidate and temperature of every request, in order."""
        return [(candidate_of(each.body), each.body["temperature"]) for each in self.server.requests]


@pytest.fixture
def model(fake_openai: FakeOpenAI) -> Model:
    scripted = Model(fake_openai)
    fake_openai.answer = scripted.answer
    return scripted


@pytest.fixture
def settings_of(fake_openai: FakeOpenAI, tmp_path: Path) -> SettingsOf:
    """Settings of a zero-shot run at the scripted server, changed as `--set` would."""
    prices = {"input": 1.0, "output": 2.0, "as_of": "2026-11-01"}
    for name in ("a", "b"):
        file = tmp_path / f"{name}.yaml"
        write_backbone(file, fake_openai, model=f"model-{name}", seed=0, retries=0, prices=prices)

    def of(*overrides: str, **choice: Any) -> EvaluationSettings:
        plain = {"benchmark": "demo", "backbone": str(tmp_path / "a.yaml"), "pipeline": "zero-shot"}
        home = str(tmp_path / "home")
        return evaluation_settings(EvaluationChoice(**plain | choice, overrides=overrides, home=home))

    return of


@pytest.fixture
def both(settings_of: SettingsOf, tmp_path: Path) -> str:
    """The setting that names two backbones."""
    return f"pipeline.candidates.backbones=[{tmp_path / 'a.yaml'}, {tmp_path / 'b.yaml'}]"


@pytest.fixture
def ask(settings_of: SettingsOf, museum: Database, prefect_home: Home) -> Ask:
    """Take both questions through the pipeline, as an evaluation does, inside of a Prefect flow."""

    async def answered(
        *overrides: str, reruns: Mapping[str, RerunSpec] | None = None, **choice: Any
    ) -> list[Outcome]:
        settings = settings_of(*overrides, **choice)

        async def work() -> list[Outcome]:
            async with Resources.open(settings, Control(Progress())) as session:
                extras = {question.id: QuestionExtras() for question in QUESTIONS}
                runner = session.runner(QuestionInputs({"museum": museum}, extras), reruns=reruns)
                outcomes = [await runner.run(runner.question_run(question)) for question in QUESTIONS]
                assert session.task_runs is not None
                await session.task_runs.finish()
                if settings.record and session.observed:
                    by_id = {outcome.question_id: outcome for outcome in outcomes}
                    path, cache = Path(settings.record), session.replies
                    record(path, QUESTIONS, by_id, session.observed, cache, lambda facts: None)
                return outcomes

        return await in_flow(work)

    return answered


WARM = "pipeline.candidates.temperature=0.8"


def n(count: int) -> str:
    return f"pipeline.candidates.n={count}"


SEVERAL = (n(4), WARM)


async def test_eight_after_four_asks_for_four_and_the_first_is_what_one_run_gave(
    ask: Ask, model: Model
) -> None:
    alone = await ask("backbone.temperature=0.8")
    assert model.asked == [(0, 0.8)] * 2
    four = await ask(n(4), WARM)
    assert sorted(model.asked[2:]) == [(one, 0.8) for one in (1, 2, 3) for _ in QUESTIONS]
    eight = await ask(n(8), WARM)
    assert sorted(model.asked[8:]) == [(one, 0.8) for one in (4, 5, 6, 7) for _ in QUESTIONS]
    again = await ask(n(8), WARM)
    assert len(model.asked) == 16
    assert [outcome.sql for outcome in (*alone, *four, *eight)] == [THREE] * 6
    assert [outcome.candidates for outcome in again] == [outcome.candidates for outcome in eight]
    assert all(record.restored for outcome in again for record in outcome.stages)
    steps = [candidate.stage for candidate in eight[0].candidates]
    assert steps == ["1_preliminary_sql", *(f"candidate_{place}" for place in range(1, 9)), "vote"]
    labels = [record.label for record in four[0].stages]
    assert labels == [*(f"preliminary_sql (candidate {place})" for place in range(1, 5)), "vote"]


async def test_every_way_to_select_asks_what_it_has_to_and_a_repetition_asks_nothing(
    ask: Ask, model: Model
) -> None:
    model.better = lambda prompt: 1 + (f"### SQL 2\n{TWO}\n" in prompt)
    model.merged = TWO

    chosen, calls = {}, {}
    for how in ("vote", "pairwise", "tournament", "merge"):
        before = len(model.comparisons)
        outcomes = await ask(*SEVERAL, f"pipeline.candidates.select={how}")
        chosen[how] = [outcome.sql for outcome in outcomes]
        calls[how] = len(model.comparisons) - before
        assert [outcome.candidates[-1].stage for outcome in outcomes] == [how, how]
    # The results are THREE twice, TWO, and no row: three groups.
    assert chosen == {"vote": [THREE] * 2, "pairwise": [TWO] * 2, "tournament": [TWO] * 2, "merge": [TWO] * 2}
    # All six ordered pairs, of which the tournament needs two.
    assert calls == {"vote": 0, "pairwise": 2 * 6, "tournament": 0, "merge": 2}
    assert sum(candidate for candidate, _ in model.asked[:8]) == 2 * (1 + 2 + 3), (
        "candidates are asked for once"
    )
    assert {temperature for _, temperature in model.asked[8:]} == {0.0}, "selection has the backbone's own"
    requests = len(model.server.requests)
    for how in calls:
        await ask(*SEVERAL, f"pipeline.candidates.select={how}")
    assert len(model.server.requests) == requests


async def test_a_comparison_that_fails_leaves_no_other_unrecorded(
    ask: Ask, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runs, "TASK_RETRY_DELAYS_S", ())
    refusal = error(400, "too long", code="context_length_exceeded")
    model.server.script(*[reply(json.dumps({"sql": sql})) for sql in (THREE, TWO, NONE)], refusal)
    model.server.delay = lambda body: 0.3 * ('"better"' in str(body["messages"][-1]["content"]))
    failed, _ = await ask(n(3), WARM, "pipeline.candidates.select=pairwise")
    compared = [record for record in failed.stages if record.stage == "compare_candidates"]
    assert failed.failure is not None
    assert len(compared) == 6
    assert sum(len(record.calls) for record in compared) == 5


async def test_a_judge_that_cannot_be_read_leaves_the_votes_choice(ask: Ask, model: Model) -> None:
    model.better = lambda prompt: 7
    model.merged = "SELECT nothing"
    settings = (n(4), WARM, "backbone.unreadable_limit=0")
    for how in ("pairwise", "tournament", "merge"):
        outcomes = await ask(*settings, f"pipeline.candidates.select={how}")
        assert [outcome.sql for outcome in outcomes] == [THREE] * 2
        assert all(record.notes for outcome in outcomes for record in outcome.stages[5:])


async def test_backbones_take_turns_and_each_begins_with_what_it_answers_alone(
    ask: Ask, model: Model, both: str, tmp_path: Path
) -> None:
    await ask(WARM, backbone=str(tmp_path / "b.yaml"))
    outcomes = await ask(both, *SEVERAL)
    asked = [(each.body["model"], candidate_of(each.body)) for each in model.server.requests[2:]]
    assert sorted(asked) == sorted(2 * [("model-a", 0), ("model-a", 1), ("model-b", 1)])
    assert {each.body["temperature"] for each in model.server.requests} == {0.8}
    models = [record.calls[0].model for record in outcomes[0].stages if record.calls]
    assert models == ["model-a", "model-b"] * 2


async def test_one_model_under_two_names_is_refused_before_it_is_asked(
    ask: Ask, settings_of: SettingsOf, model: Model, tmp_path: Path
) -> None:
    text = (tmp_path / "a.yaml").read_text(encoding="utf-8")
    auto = text.replace("response_mode: json_object\n", "")
    (tmp_path / "d.yaml").write_text(auto, encoding="utf-8")
    named = f"pipeline.candidates.backbones=[{tmp_path / 'c.yaml'}, {tmp_path / 'd.yaml'}]"
    chosen = {"backbone": str(tmp_path / "c.yaml")}
    for mode in ("", "response_mode: json_schema\n"):  # which auto is here, as one request finds
        (tmp_path / "c.yaml").write_text(auto + mode, encoding="utf-8")
        assert model.server.requests == []
        with pytest.raises(ConfigurationError, match="are one model with the same settings"):
            check_candidates(settings_of(named, n(2), WARM, **chosen))
            await ask(named, n(2), WARM, **chosen)
    assert [each.prompt for each in model.server.requests] == [PROBE.messages[-1].content]


async def test_a_recording_serves_every_candidate_of_every_backbone(
    ask: Ask, model: Model, both: str, tmp_path: Path
) -> None:
    sqls = {("model-a", 0): THREE, ("model-b", 0): TWO, ("model-a", 1): NONE, ("model-b", 1): TWO}
    model.server.answer = lambda body: json.dumps({"sql": sqls[body["model"], candidate_of(body)]})
    file = tmp_path / "recording.jsonl"
    recorded = await ask(both, *SEVERAL, record=str(file))
    requests = len(model.server.requests)
    replayed = await ask(both, *SEVERAL, f"backbone.recording={file}", backbone="replay")
    assert len(model.server.requests) == requests == 8
    assert [each.candidates for each in replayed] == [each.candidates for each in recorded]
    assert {each.sql for each in replayed} == {TWO}


async def test_a_candidate_that_fails_for_now_is_asked_again_and_the_others_are_not(
    ask: Ask, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runs, "TASK_RETRY_DELAYS_S", ())

    def fails(body: Body) -> str:
        if candidate_of(body) == 1:
            raise ConnectionError
        return ordinary(body)

    ordinary, model.server.answer = model.server.answer, fails
    failed = await ask(n(3), WARM)
    assert [outcome.failure and outcome.failure.retryable for outcome in failed] == [True, True]
    paid = len([each for each in model.asked if each[0] != 1])
    assert paid == 4
    model.server.answer = ordinary
    mended = await ask(n(3), WARM)
    assert [outcome.failure for outcome in mended] == [None, None]
    assert len([each for each in model.asked if each[0] != 1]) == paid, "what was answered is not asked again"


async def test_a_candidate_that_is_refused_for_good_has_no_sql_unless_all_are(ask: Ask, model: Model) -> None:
    refusal = error(400, "too long", code="context_length_exceeded")
    model.server.script(refusal)
    one, _ = await ask(n(3), WARM)
    sqls = [each.sql for each in one.candidates if is_candidate(each.stage)]
    assert sqls.count(None) == 1 and one.failure is None
    assert any("was refused" in note for note in one.notes)
    model.server.script(*[refusal] * 3)
    none, other = await ask(n(3), WARM, "backbone.seed=9")
    assert none.failure is not None and not none.failure.retryable
    assert other.failure is None


async def test_a_run_that_is_cut_off_is_continued_and_pays_for_nothing_twice(ask: Ask, model: Model) -> None:
    settings = (n(8), WARM, "backbone.concurrency=2")
    model.server.latency = 0.05
    cut = asyncio.ensure_future(ask(*settings))
    while len(model.server.requests) < 5:
        await asyncio.sleep(0.005)
    cut.cancel()
    with suppress(asyncio.CancelledError):
        await cut
    assert len(model.server.requests) < 2 * 8
    model.server.latency = 0.0
    outcomes = await ask(*settings)
    assert [outcome.sql for outcome in outcomes] == [THREE] * 2
    assert sorted(model.asked) == [(candidate, 0.8) for candidate in range(8) for _ in QUESTIONS]


async def test_a_fresh_rerun_asks_every_candidate_anew(ask: Ask, model: Model) -> None:
    await ask(n(2), WARM)
    for _ in range(2):  # the second continues the first
        await ask(n(2), WARM, reruns={"1": RerunSpec(attempt=1)})
        assert [candidate for candidate, _ in model.asked[4:]] == [0, 1]
    seeds = [each.body["seed"] for each in model.server.requests]
    assert len(set(seeds[4:]) & set(seeds[:4])) == 0


DEMONSTRATED = ("pipeline.candidates.demonstrations=shuffled",)


OFFLINE = {"backbone": "offline"}


@pytest.mark.parametrize(("overrides", "choice", "message"), [
    ((n(0),), {}, "pipeline.candidates.n"),
    ((n(65),), {}, "pipeline.candidates.n"),
    ((n(4),), {}, "a answers at temperature 0, so its candidates would be the same"),
    ((n(4),), OFFLINE, "offline always gives a question the same answer"),
    ((n(4), *DEMONSTRATED), {}, "at least 2 demonstrations"),
    ((n(3), "pipeline.candidates.schema_formats=[m_schema]"), {}, "another format than comment for each candidate"),
    ((n(4), "pipeline.candidates.backbones=[opena, vllm]"), {}, 'no backbone "opena"'),
    ((n(1), "pipeline.candidates.backbones=[offline, vllm]"), {}, "n to at least 2"),
    ((n(2), "pipeline.candidates.backbones=[vllm, vllm]"), {}, "occurs twice"),
    ((n(3), "pipeline.candidates.backbones=[offline, vllm]"), {}, "offline always gives a question the same answer"),
    ((n(2), "pipeline.candidates.backbones=[vllm, replay]"), {}, "serves a recording"),
    ((n(4), WARM), {}, None),
    ((n(4), *DEMONSTRATED), {"pipeline": "few-shot"}, None),
    ((n(4), *DEMONSTRATED), {"pipeline": "dac", **OFFLINE}, None),
    ((n(4), "backbone.temperature=null"), {}, None),
    ((n(3), "pipeline.candidates.schema_formats=[m_schema, create_table]"), OFFLINE, None),
    ((n(2), "pipeline.candidates.backbones=[offline, vllm]"), {}, None),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else None)  # fmt: skip
def test_candidates_that_cannot_be_made_are_refused_and_those_that_can_differ_are_taken(
    settings_of: SettingsOf, overrides: Sequence[str], choice: Mapping[str, Any], message: str | None
) -> None:
    with pytest.raises(ConfigurationError, match=message) if message else nullcontext():
        check_candidates(settings_of(*overrides, **choice))


def contexts(kind: str, shown: tuple[Demonstration, ...] = (), **candidates: Any) -> list[Context[Any]]:
    """The contexts of four candidates of a pipeline."""
    given = {"kind": kind, "name": "x", "candidates": {"n": 4, **candidates}}
    settings, nothing = PipelineSettings.model_validate(given), None
    context = Context(settings, nothing, shown, MeteredBackbone(nothing))  # type: ignore[arg-type]
    made = Candidates(nothing, (MeteredBackbone(nothing),), "bird")  # type: ignore[arg-type]
    return [made.context_of(place, context) for place in range(4)]


def test_shuffled_demonstrations_differ_by_candidate_and_never_by_run() -> None:
    shown = tuple(Demonstration(f"q{place}", "SELECT 1", "zoo") for place in range(6))
    orders, again = (
        [each.demonstrations for each in contexts("few-shot", shown, demonstrations="shuffled")] for _ in "12"
    )
    assert orders[0] == shown and len(set(orders)) == 4
    assert all(sorted(order, key=str) == sorted(shown, key=str) for order in orders)
    assert orders == again


def test_candidates_from_the_second_on_have_the_schema_formats_in_turns() -> None:
    found = contexts("x", schema_formats=["m_schema", "create_table"])
    formats = [each.settings.prompt.schema_format for each in found]
    assert formats == ["comment", "m_schema", "create_table", "m_schema"]


@pytest.mark.parametrize(("rule", "groups"), [
    # sets of rows: duplicates and order ignored, column order matters
    ("bird", [0, 0, 0, 3, 4, 4]),
    # multisets, DISTINCT stripped; order matters where either has ORDER BY; columns in any order
    ("spider", [0, 1, 2, 0, 4, 4]),
    # multisets; order matters where either has it outermost; column order matters
    ("strict", [0, 1, 2, 3, 4, 5]),
    # each a subset of the other's columns, order ignored
    ("subset", [0, 0, 2, 0, 4, 5]),
])  # fmt: skip
async def test_a_vote_under_each_rule(bench: Bench, rule: str, groups: list[int]) -> None:
    written = (
        "SELECT museum_id, id FROM 'order' WHERE museum_id = 1 UNION ALL SELECT 3, 3",
        "SELECT museum_id, id FROM 'order' ORDER BY id DESC",
        "SELECT museum_id, id FROM 'order' UNION ALL SELECT 1, 1",
        "SELECT id, museum_id FROM 'order'",
        "SELECT museum_id FROM 'order'",
        "SELECT DISTINCT museum_id FROM 'order'",
    )
    ballot = await bench.run(vote(written, rule, bench.runner))
    assert set(ballot.statuses) == {"ok"}
    assert list(ballot.leaders) == groups


async def test_a_query_that_ends_its_worker_costs_no_other_candidate_its_vote(bench: Bench) -> None:
    huge = "SELECT a.id, hex(zeroblob(300000000)), hex(zeroblob(300000001)) FROM museum AS a"
    ballot = await bench.run(vote((THREE, huge, ENDLESS, ALSO_THREE, None), "bird", bench.runner))
    assert ballot.statuses[0] == ballot.statuses[3] == "ok"
    assert ballot.statuses[1] in ("too_large", "error") and ballot.statuses[2:3] == ("timeout",)
    assert ballot.statuses[4] == "no_answer"
    assert ballot.leaders == (0, 1, 2, 0, 4)
