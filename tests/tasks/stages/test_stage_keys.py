"""What the key of a stage's result depends on, and nothing else; labels of stages, and the order of their records."""

import inspect
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.metered import MeteredBackbone
from tasks.core.outcome import StageRecord
from tasks.core.records import (
    Augmentation,
    ColumnName,
    CorrectionCase,
    FewShotQuestion,
    Link,
    Question,
    SqlPair,
)
from tasks.core.registry import forget_changed_files, import_file
from tasks.database.database import Database, locate
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import ForeignKey, Schema
from tasks.database.schema_text import SchemaView
from tasks.settings.backbone import Prices
from tasks.settings.home import find_conf
from tasks.settings.stages import BackwardLinkSettings, CorrectionSettings, CorrectionTurns, SelectionSettings
from tasks.stages.columns import describe_columns
from tasks.stages.question_run import QuestionRun
from tasks.stages.rsl_sql import (
    augmentation_conditions,
    augmentation_elements,
    augmentation_keywords,
    augmentation_together,
    augmented_sql,
    backward_link,
    binary_selection,
    forward_link,
    preliminary_sql,
    self_correction,
)
from tasks.stages.stage import Stage, cache_key, code_of, identity
from tests.support.stage_bench import DEMONSTRATIONS, QUESTION, Bench

STAGES: tuple[Stage[Any, Any], ...] = (
    forward_link,
    preliminary_sql,
    backward_link,
    augmentation_elements,
    augmentation_keywords,
    augmentation_conditions,
    augmentation_together,
    augmented_sql,
    binary_selection,
    self_correction,
    describe_columns,
)
ASKING = tuple(stage for stage in STAGES if stage is not backward_link)
LINK = Link(("museum",), (ColumnName("museum", "name"),))
Arguments = dict[str, Any]


def arguments_of(stage: Stage[Any, Any], bench: Bench) -> Arguments:
    """One value for every parameter of a stage, by its name."""
    settings = {
        "backward_link": BackwardLinkSettings(),
        "binary_selection": SelectionSettings(),
        "self_correction": CorrectionTurns(),
    }
    every: Arguments = {
        "question": QUESTION,
        "few_shot": FewShotQuestion(QUESTION, DEMONSTRATIONS),
        "case": CorrectionCase(
            FewShotQuestion(QUESTION, DEMONSTRATIONS),
            "SELECT 1",
            Augmentation(None, ("COUNT",), ("of Lyon",)),
        ),
        "schema": bench.schema,
        "view": SchemaView(bench.schema, descriptions=True),
        "settings": settings.get(stage.name),
        "earlier": None,
        "link": LINK,
        "max_columns_per_table": 15,
        "augmentation": Augmentation(LINK, ("COUNT",), ("of Lyon",)),
        "sql": "SELECT 1",
        "candidates": SqlPair("SELECT 1", "SELECT 2"),
        "table": "museum",
        "columns": ("name",),
        "layout": "omnisql",
        "parts": ("elements", "conditions"),
        "runner": bench.runner,
        "backbone": bench.backbone,
    }
    return {name: every[name] for name in inspect.signature(stage.function).parameters}


def with_columns(schema: Schema, **changes: Any) -> Schema:
    """The schema with the first column of its first table changed."""
    table = schema.tables[0]
    columns = (replace(table.columns[0], **changes), *table.columns[1:])
    return replace(schema, tables=(replace(table, columns=columns), *schema.tables[1:]))


def shown_by(view: SchemaView, **prompt: Any) -> SchemaView:
    """The view with other prompt settings."""
    return replace(view, prompt=view.prompt.model_copy(update=prompt))


OTHER = replace(DEMONSTRATIONS[0], sql="SELECT 7")
CHANGES: dict[str, Callable[[Any, Bench], Any]] = {
    "question.text": lambda q, b: replace(q, text=q.text + " "),
    "question.evidence": lambda q, b: replace(q, evidence=""),
    "schema.description": lambda s, b: with_columns(s, description="new"),
    "schema.samples": lambda s, b: with_columns(s, samples=(9,)),
    "schema.name": lambda s, b: with_columns(s, name="ID"),
    "schema.foreign_keys": lambda s, b: replace(
        s, foreign_keys=(*s.foreign_keys, ForeignKey("order", ("id",), "museum", ("id",)))
    ),
    "schema.reduced": lambda s, b: s.reduced_to(LINK),
    "view.schema": lambda v, b: replace(v, schema=with_columns(v.schema, description="new")),
    "view.reduced": lambda v, b: v.reduced_to(LINK),
    "view.values": lambda v, b: v.with_values(()),
    "view.schema_format": lambda v, b: shown_by(v, schema_format="m_schema"),
    "view.task": lambda v, b: shown_by(v, task="last"),
    "view.sample_rows": lambda v, b: shown_by(v, sample_rows=2),
    "view.foreign_keys": lambda v, b: shown_by(v, foreign_keys=False),
    "view.descriptions": lambda v, b: replace(v, descriptions=False),
    "few_shot.text": lambda a, b: replace(a, question=replace(QUESTION, text="Which?")),
    "few_shot.none": lambda a, b: replace(a, demonstrations=()),
    "few_shot.order": lambda a, b: replace(a, demonstrations=DEMONSTRATIONS[::-1]),
    "few_shot.sql": lambda a, b: replace(a, demonstrations=(OTHER, DEMONSTRATIONS[1])),
    "case.sql": lambda c, b: replace(c, sql="SELECT 3"),
    "case.none": lambda c, b: replace(c, sql=None),
    "case.text": lambda c, b: replace(
        c, few_shot=replace(c.few_shot, question=replace(QUESTION, text="Which?"))
    ),
    "case.demonstrations": lambda c, b: replace(c, few_shot=replace(c.few_shot, demonstrations=())),
    "case.keywords": lambda c, b: replace(c, augmentation=replace(c.augmentation, keywords=None)),
    "case.conditions": lambda c, b: replace(c, augmentation=replace(c.augmentation, conditions=())),
    "earlier.link": lambda e, b: LINK,
    "link.none": lambda link, b: None,
    "link.columns": lambda link, b: replace(link, columns=(ColumnName("museum", "city"),)),
    "max_columns_per_table.other": lambda d, b: 3,
    "augmentation.keywords_off": lambda a, b: replace(a, keywords=None),
    "augmentation.keywords_empty": lambda a, b: replace(a, keywords=()),
    "augmentation.conditions": lambda a, b: replace(a, conditions=("of Ghent",)),
    "sql.other": lambda s, b: "SELECT 3",
    "sql.none": lambda s, b: None,
    "candidates.sql1": lambda c, b: replace(c, sql1="SELECT 3"),
    "candidates.sql2": lambda c, b: replace(c, sql2="SELECT 3"),
    "candidates.swapped": lambda c, b: SqlPair(c.sql2, c.sql1),
    "table.other": lambda t, b: "guide",
    "parts.more": lambda p, b: (*p, "keywords"),
    "layout.other": lambda x, b: "arctic",
    "columns.more": lambda c, b: (*c, "city"),
    "runner.timeout": lambda r, b: replace(r, timeout_s=9.0),
    "runner.content": lambda r, b: replace(r, database=replace(r.database, digest="another")),
}


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
async def test_the_key_varies_on_everything_that_the_result_depends_on(
    bench: Bench, stage: Stage[Any, Any]
) -> None:
    arguments = arguments_of(stage, bench)
    keys = {"": stage.key(arguments), "attempt": stage.key(arguments, attempt=1)}
    for name, change in CHANGES.items():
        parameter = name.partition(".")[0]
        if parameter in arguments:
            keys[name] = stage.key({**arguments, parameter: change(arguments[parameter], bench)})
    settings = arguments.get("settings")
    for field in type(settings).model_fields if settings else ():
        if (stage.name, field) != ("binary_selection", "enabled"):  # read before the stage is called at all
            keys[f"settings.{field}"] = stage.key({**arguments, "settings": changed(settings, field)})
    keys["version"] = Stage(stage.function, stage.version + 1, stage.prompt_names).key(arguments)
    assert len(set(keys.values())) == len(keys)
    assert {name.partition(".")[0] for name in keys} >= set(arguments) - {"backbone"}


def changed(settings: Any, field: str) -> Any:
    """Settings with another valid value in one field."""
    now = getattr(settings, field)
    others = {
        "hint_source": "question", "match": "parsed", "first_turn": "blind", "when": "error", "shortcut": "none"
    }  # fmt: skip
    value = others.get(field, not now if isinstance(now, bool) else now + 1 if isinstance(now, int) else None)
    assert value is not None and value != now, field
    return settings.model_copy(update={field: value})


@pytest.mark.parametrize("stage", ASKING, ids=lambda stage: stage.name)
async def test_the_key_varies_on_who_answers_and_how_but_not_on_how_it_is_reached(
    bench: Bench, open_fake: Callable[..., Any], stage: Stage[Any, Any]
) -> None:
    arguments = arguments_of(stage, bench)

    def key(**changes: Any) -> str:
        return stage.key({**arguments, "backbone": MeteredBackbone(open_fake(**changes))})

    same = stage.key(arguments)
    others = [
        key(model="fake-2"),
        key(temperature=0.7),
        key(temperature=None),
        key(seed=3),
        key(max_tokens=100),
        key(response_mode="json_schema"),
        key(base_url="http://127.0.0.1:1/v1"),
        key(extra_body={"thinking": {"type": "disabled"}}),
    ]
    assert len({same, *others}) == len(others) + 1
    prices = Prices.model_validate({"input": 1.0, "output": 2.0, "as_of": "2026-01-01"})
    for changes in (
        {"name": "other"},
        {"description": "other"},
        {"concurrency": 2},
        {"timeout_s": 3.0},
        {"retries": 4},
        {"max_wait_s": 1.0},
        {"prices": prices},
    ):
        assert key(**changes) == same, changes


@pytest.mark.parametrize("stage", ASKING, ids=lambda stage: stage.name)
async def test_the_bill_of_a_backbone_is_not_part_of_the_key(bench: Bench, stage: Stage[Any, Any]) -> None:
    arguments = arguments_of(stage, bench)
    before = stage.key(arguments)
    bench.backbone.note("something")
    assert stage.key(arguments) == before


async def test_the_same_question_and_database_elsewhere_have_the_same_answer(
    bench: Bench, tmp_path: Path
) -> None:
    arguments = arguments_of(forward_link, bench)
    elsewhere = replace(QUESTION, id="999", difficulty="challenging")
    assert forward_link.key({**arguments, "question": elsewhere}) == forward_link.key(arguments)
    database = bench.runner.database
    moved = Database(
        database.id, locate(str(tmp_path / "elsewhere.sqlite")), database.schema, database.digest
    )
    runner = DatabaseRunner(moved, bench.runner.workers, bench.runner.timeout_s)
    arguments = arguments_of(binary_selection, bench)
    assert binary_selection.key({**arguments, "runner": runner}) == binary_selection.key(arguments)


def test_what_only_the_pipeline_reads_does_not_reach_the_stage() -> None:
    before = CorrectionSettings(rounds=2, before_selection=True)
    assert identity(before.turns) == identity(CorrectionSettings(rounds=2).turns)
    assert "before_selection" not in identity(before.turns)


async def test_no_two_stages_share_a_key(bench: Bench) -> None:
    same = {"question": QUESTION, "view": SchemaView(bench.schema)}
    assert len({stage.key(same) for stage in STAGES}) == len(STAGES)
    assert len({stage.key(same).partition("/")[2] for stage in STAGES}) == len(STAGES)
    assert all(stage.key(same).startswith(f"{stage.name}/") for stage in STAGES)


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Use a copy of the configuration in which one template has a remark more."""
    original = find_conf()

    def use(template: str) -> None:
        copy = tmp_path / template
        shutil.copytree(original / "prompts", copy / "prompts")
        with (copy / "prompts" / f"{template}.jinja").open("a", encoding="utf-8") as file:
            file.write("{#- changed -#}")
        monkeypatch.setenv("CROSSCHECK_CONF", str(copy))

    return use


async def test_a_changed_prompt_changes_the_keys_of_the_stages_that_render_it_and_of_no_other(
    bench: Bench, conf: Callable[[str], None]
) -> None:
    def keys() -> Mapping[str, str]:
        return {stage.name: stage.key(arguments_of(stage, bench)) for stage in STAGES}

    def changed_by(template: str) -> set[str]:
        conf(template)
        now = keys()
        return {name for name in now if now[name] != before[name]}

    before = keys()
    assert changed_by("forward_link") == {"forward_link", "augmentation_elements"}
    for name in (
        "preliminary_sql",
        "augmented_sql",
        "binary_selection",
        "self_correction",
        "describe_columns",
    ):
        assert changed_by(name) == {name}
    assert changed_by("_sections") == {stage.name for stage in ASKING}


def test_what_has_no_identity_cannot_get_into_a_key_and_the_error_says_how_to_give_it_one(
    tmp_path: Path,
) -> None:
    class Client:
        key = "sk-secret"

    for value in (Client(), tmp_path, {1, 2}, b"bytes", object, lambda: None):
        with pytest.raises(TypeError, match="no identity"):
            cache_key("stage", "1", "", {"argument": value})
        with pytest.raises(TypeError, match="no identity"):
            cache_key("stage", "1", "", {"argument": ({"inner": [value]},)})

    class Client:
        pass

    with pytest.raises(TypeError) as caught:
        cache_key("forward_link", "1", "", {"question": QUESTION, "client": [Client()]})
    said = str(caught.value)
    assert said.startswith(
        'The stage "forward_link" cannot be cached: in its argument "client", a Client has no identity'
    )
    assert [line[:2] for line in said.splitlines()[1:]] == ["1.", "2.", "3."]
    assert "`identity`" in said and "`@tasks.stages.stage.identity.register`" in said


def test_the_code_of_a_stage_is_part_of_its_key_and_its_docstring_is_not() -> None:
    def plain(text: str) -> str:
        """Return the text."""
        return text

    def documented(text: str) -> str:
        """Return the text.

        In other words: the same.
        """
        return text

    def changed(text: str) -> str:
        """Return the text."""
        return text + "."

    codes = [code_of(function).partition("(")[2] for function in (plain, documented, changed)]
    assert codes[0] == codes[1] != codes[2]
    assert '"""' not in codes[0] and "return text" in codes[0]
    assert code_of(len) == ""


def test_arguments_do_not_run_into_each_other() -> None:
    keys = {
        cache_key("s", "1", "", {"a": "x", "b": ""}),
        cache_key("s", "1", "", {"a": "", "b": "x"}),
        cache_key("s", "1", "", {"a": ["x"], "b": ""}),
        cache_key("s", "1", "", {"a": "x"}),
        cache_key("s", "1", "", {"a": "1"}),
        cache_key("s", "1", "", {"a": 1}),
        cache_key("s", "1", "", {"a": True}),
        cache_key("s", "1", "", {"a": None}),
        cache_key("s", "1", "x", {}),
        cache_key("s", "1", "", {}, 1),
        cache_key("s", "11", "", {}),
    }
    assert len(keys) == 11
    assert cache_key("s", "1", "", {"a": 1, "b": 2}) == cache_key("s", "1", "", {"b": 2, "a": 1})


CALLS = 20_000


def question_run() -> QuestionRun:
    return QuestionRun(Question("1", "?", "db"))


def test_a_stage_is_numbered_from_its_second_call_on() -> None:
    made = question_run()
    assert [made.label(stage) for stage in ("a", "a", "b", "a", "a 5", "a", "a")] == [
        "a", "a 2", "b", "a 3", "a 5", "a 4", "a 6",
    ]  # fmt: skip


def test_candidates_are_numbered_apart_and_stand_where_they_are_joined() -> None:
    made = question_run()
    made.label("first")
    second = made.for_candidate(2)
    labels = [second.label("ask"), second.label("ask")]
    second.records += [StageRecord("ask", label, None, restored=False) for label in reversed(labels)]
    made.join(second)
    made.records.insert(0, StageRecord("last", made.label("last"), None, restored=False))
    assert [record.label for record in made.in_order] == ["ask (candidate 2)", "ask 2 (candidate 2)", "last"]


def test_thousands_of_calls_of_one_stage_hold_the_loop_up_for_no_second() -> None:
    made = question_run()
    started = time.process_time()
    made.records += [StageRecord("a", made.label("a"), None, restored=False) for _ in range(CALLS)]
    labels = [record.label for record in made.in_order]
    assert time.process_time() - started < 5
    assert labels[-1] == f"a {CALLS}"


def test_a_result_is_counted_once_whatever_its_process() -> None:
    made = QuestionRun(Question("1", "?", "db"), run="tonight")
    result, others = {"made_by": "tonight/1"}, {"made_by": "yesterday/1"}
    assert made.count_own("key", result, ran=True)  # by a task that ran now
    assert not made.count_own("key", result, ran=False)  # restored for the question's second call
    assert not made.for_candidate(2).count_own("key", result, ran=False)
    assert made.count_own("other key", result, ran=False)  # by a worker that crashed
    assert not made.count_own("third key", others, ran=False)


def test_a_stage_of_ones_own_keeps_the_key_of_the_code_that_was_imported(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    code = "from crosscheck import stage\n\n\n@stage()\nasync def mine(sql: str) -> str:\n    return {}\n"

    def key_of(imported: str, edited: str) -> str:
        file.write_text(code.format(imported), encoding="utf-8")
        forget_changed_files()
        stage: Stage[..., str] = import_file(file, "pipeline").mine
        file.write_text(code.format(edited), encoding="utf-8")
        return stage.key({"sql": "SELECT 1"})

    keys = [
        key_of("sql", edited="sql.lower()"),
        key_of("sql.upper()", edited="sql"),
        key_of("sql", edited="sql"),
    ]
    assert keys[0] == keys[2] != keys[1]
