"""Settings: what the files say, what --set changes, and errors that say what was meant."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.described import field_docstrings
from tasks.core.errors import ConfigurationError
from tasks.settings.base import Settings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.kinds import PIPELINES
from tasks.settings.load import (
    available,
    load_backbone_settings,
    load_benchmark_settings,
    load_pipeline_settings,
    load_settings,
    parse_override,
)
from tasks.settings.pipeline import RslSqlSettings

CONF = find_conf()
KINDS = ("benchmark", "backbone", "pipeline")
SHIPPED = [(kind, name) for kind in KINDS for name in available(CONF, kind)]


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_shipped_file_loads_and_describes_itself(kind: str, name: str) -> None:
    settings = load_settings(CONF, kind, name)
    assert settings.name == name
    assert settings.description
    assert type(settings).model_validate(settings.model_dump()) == settings
    assert dict(settings)["name"] == name, "Prefect takes what has a method `keys` for a mapping"


PUBLISHED = {
    "rsl-sql": """
        demonstrations.k=3 demonstrations.mask=false demonstrations.evidence=false demonstrations.metric=euclidean
        demonstrations.encoder=sentence-transformers/all-mpnet-base-v2 prompt.sample_rows=3 prompt.schema_format=comment
        linking.forward.hint_source=evidence linking.backward.match=substring linking.directions=both
        linking.iterations=1 linking.keep_keys=false linking.shown=named
        selection.rows_shown=5 selection.counts=true selection.shortcut=identical
        correction.augmentation=true correction.rounds=5 correction.when=error_or_empty
        """,
    "rsl-sql, deviations": "demonstrations.retriever=bm25 correction.first_turn=informed",
    "rsl-sql-acl": """
        demonstrations.metric=cosine demonstrations.retriever=auto demonstrations.encoder=BAAI/bge-large-en-v1.5
        prompt.schema_format=m_schema prompt.sample_rows=5 prompt.rows=random prompt.longest_value=50
        prompt.missing=true linking.descriptions=true linking.forward.hint_source=both linking.backward.match=parsed
        linking.iterations=1 selection.counts=true selection.demonstrations=false selection.shortcut=result
        correction.rounds=3 correction.when=error
        """,
    "rsl-sql-spider": "demonstrations.k=9 demonstrations.mask=true linking.shown=none correction.when=error",
    "rsl-sql-strong": "prompt.values=retrieved",
    "few-shot": "demonstrations.k=3",
    "zero-shot": "demonstrations.k=0",
}


@pytest.mark.parametrize("profile", PUBLISHED)
def test_setting_what_a_profile_states_changes_nothing(profile: str) -> None:
    name = profile.partition(",")[0]
    stated = [f"pipeline.{each}" for each in PUBLISHED[profile].split()]
    assert load_pipeline_settings(CONF, name, stated) == load_pipeline_settings(CONF, name)


OWN_PROFILES = ("rsl-sql-economy", "rsl-sql-strong")


@pytest.mark.parametrize(
    "name", ["rsl-sql", "rsl-sql-acl", "rsl-sql-spider", "dac", "sea-sql", *OWN_PROFILES]
)
def test_a_profile_begins_with_its_differences_and_every_setting_it_names_can_be_set(name: str) -> None:
    text = (CONF / "pipelines" / f"{name}.yaml").read_text(encoding="utf-8")
    remarks = text.partition("\nkind:")[0]
    assert ("our own profile" if name in OWN_PROFILES else "in our own words") in remarks
    named = re.findall(r"pipeline\.[a-z_.]+=[\w.-]+", remarks)
    assert named
    for override in named:
        assert load_pipeline_settings(CONF, name, [override]) != load_pipeline_settings(CONF, name), override


@pytest.mark.parametrize("name", available(CONF, "pipeline"))
@pytest.mark.parametrize("override", ["prompt.row_seed=7", "candidates.seed=7", "demonstrations.mask=true"])
def test_a_changed_key_leaves_the_others_of_its_part_as_they_are(name: str, override: str) -> None:
    part, _, key = override.partition("=")[0].partition(".")
    plain, changed = (
        getattr(load_pipeline_settings(CONF, name, overrides), part).model_dump()
        for overrides in ([], [f"pipeline.{override}"])
    )
    assert plain | {key: changed[key]} == changed


@pytest.mark.parametrize(("rules", "names"), [
    ("rsl_sql", ("rsl-sql", "rsl-sql-acl", "rsl-sql-spider", "rsl-sql+dac")),
    ("none", ("dac", "sea-sql")),
    ("all", ("few-shot", "zero-shot", "agent", *OWN_PROFILES)),
])  # fmt: skip
def test_profiles_of_papers_have_no_rules_but_the_papers(rules: str, names: Sequence[str]) -> None:
    for name in names:
        assert load_pipeline_settings(CONF, name).prompt.rules == rules, name
        other = load_pipeline_settings(CONF, name, ["pipeline.prompt.longest_value=9"])
        assert other.prompt.rules == rules, name


@pytest.mark.parametrize(("text", "expected"), [
    ("pipeline.selection.counts=true", ("pipeline", ["selection", "counts"], True)),
    ("pipeline.demonstrations.k=5", ("pipeline", ["demonstrations", "k"], 5)),
    ("backbone.temperature=null", ("backbone", ["temperature"], None)),
    ("backbone.temperature=", ("backbone", ["temperature"], None)),
    ("backbone.temperature=0.5", ("backbone", ["temperature"], 0.5)),
    ("backbone.model=gpt-4o", ("backbone", ["model"], "gpt-4o")),
    ("backbone.model='4'", ("backbone", ["model"], "4")),
    ("backbone.base_url=http://h:1/v1?a=b", ("backbone", ["base_url"], "http://h:1/v1?a=b")),
    ("benchmark.quarantine=[1, 2]", ("benchmark", ["quarantine"], [1, 2])),
    ("backbone.extra_body={a: {b: 1}}", ("backbone", ["extra_body"], {"a": {"b": 1}})),
    (" pipeline.name = x y ", ("pipeline", ["name"], "x y")),
])  # fmt: skip
def test_an_override_is_kind_key_and_a_yaml_value(text: str, expected: tuple[str, list[str], Any]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize(("text", "said"), [
    ("pipeline.selection.shortcut", "write kind.key=value"),
    ("pipeline=3", "write kind.key=value"),
    ("pipeline..k=3", "write kind.key=value"),
    ("=3", "write kind.key=value"),
    ("", "write kind.key=value"),
    ("pipelin.demonstrations.k=3", 'Did you mean "pipeline"?'),
    ("demonstrations.k=3", 'no key starts with "demonstrations"'),
    ("pipeline.demonstrations.k=[", "the value is not YAML: line 1, column 2: expected the node content"),
])  # fmt: skip
def test_an_override_of_another_form_says_how_to_write_one(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_override(text)
    assert said in str(caught.value)
    assert f"--set {text}" in str(caught.value)


@given(st.text(max_size=30))
def test_whatever_is_set_is_read_or_refused_in_words(text: str) -> None:
    try:
        kind, keys, _ = parse_override(text)
    except ConfigurationError as error:
        assert str(error).startswith("--set ")
    else:
        assert kind in KINDS and all(keys)


def test_overrides_reach_the_place_they_name_and_no_other() -> None:
    overrides = [
        "pipeline.selection.shortcut=result",
        "pipeline.linking.forward.hint_source=none",
        "backbone.seed=7",
        "benchmark.timeout_s=5",
        "pipeline.selection.rows_shown=2",
        "pipeline.selection.rows_shown=9",
    ]
    plain, changed = (
        load_pipeline_settings(CONF, "rsl-sql"),
        load_pipeline_settings(CONF, "rsl-sql", overrides),
    )
    assert isinstance(changed, RslSqlSettings)
    assert changed.selection.shortcut == "result" and changed.selection.rows_shown == 9
    assert changed.linking.forward.hint_source == "none"
    assert differences(plain.model_dump(), changed.model_dump()) == {
        "selection.shortcut", "selection.rows_shown", "linking.forward.hint_source",
    }  # fmt: skip
    assert load_backbone_settings(CONF, "openai", overrides).seed == 7
    assert load_benchmark_settings(CONF, "demo", overrides).timeout_s == 5.0


def differences(first: dict[str, Any], second: dict[str, Any], prefix: str = "") -> set[str]:
    """Dotted names of the values that differ."""
    found = set()
    for key in first:
        if isinstance(first[key], dict):
            found |= differences(first[key], second[key], f"{prefix}{key}.")
        elif first[key] != second[key]:
            found.add(prefix + key)
    return found


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("pipeline.seleciton.shortcut=true", 'there is no key "seleciton". Did you mean "selection"?'),
        ("pipeline.selection.shortcuts=true", 'there is no key "shortcuts". Did you mean "shortcut"?'),
        (
            "pipeline.linking.forward.hint_sorce=none",
            'there is no key "hint_sorce". Did you mean "hint_source"?',
        ),
        (
            "pipeline.linking.xyz=none",
            "Valid names: backward, descriptions, directions, forward, iterations, keep_keys, shown.",
        ),
        (
            "pipeline.linking.forward.hint_source=evidnce",
            "'evidence', 'question', 'both' or 'none', not 'evidnce'",
        ),
        ("pipeline.demonstrations.k=-1", "greater than or equal to 0, not -1"),
        ("pipeline.demonstrations.k='3'", "valid integer, not '3'"),
        ("pipeline.demonstrations.k=3.0", "valid integer, not 3.0"),
        ("pipeline.demonstrations.k=true", "valid integer, not True"),
        ("pipeline.demonstrations.k=", "valid integer, not None"),
        ("pipeline.selection.counts=1", "valid boolean, not 1"),
        ("pipeline.selection.counts='yes'", "valid boolean, not 'yes'"),
        ("pipeline.selection.shortcut=true", "'none', 'identical' or 'result', not True"),
        (
            "pipeline.selection=false",
            "False is not keys and values. Its keys: enabled, rows_shown, counts, demonstrations, both_orders, "
            "shortcut.",
        ),
        ("pipeline.name.x=1", '"name" is a single value, it has no keys below it'),
        ("pipeline.kind=rslsql", 'there is no pipeline "rslsql". Did you mean "rsl-sql"?'),
        (
            "pipeline.kind=",
            "which pipeline this is about is missing. Valid: agent, dac, few-shot, native, rsl-sql, sea-sql.",
        ),
        ("benchmark.revision=1.0", "valid string, not 1.0. Put it in quotes."),
        ("benchmark.rule=brid", "'bird', 'spider', 'strict' or 'subset', not 'brid'"),
        ("backbone.prices.inptu=3", 'there is no key "inptu". Did you mean "input"?'),
        ("backbone.prices={input: 3, output: 1}", "as_of is missing"),
        ("backbone.prices.as_of=yesterday", "valid date"),
        ("backbone.concurrency=0", "greater than or equal to 1, not 0"),
        ("backbone.concurrency=1000000000", "less than or equal to"),
        ("backbone.timeout_s=.inf", "not inf"),
        ("backbone.timeout_s=.nan", "not nan"),
        ("backbone.seed=1e30", "valid integer, not '1e30'"),
        ("benchmark.layout=brid", 'there is no benchmark layout "brid". Did you mean "bird"?'),
        (
            "backbone.response_mode=jsn_object",
            'there is no response mode "jsn_object". Did you mean "json_object"?',
        ),
        ("backbone.extra_body={day: 2026-11-30}", "not a valid JSON value"),
        ("backbone.extra_body={limits: [.nan]}", "a finite number, not nan"),
        ("backbone.kind=opnai", 'there is no backbone "opnai". Did you mean "openai"?'),
    ],
)
def test_a_wrong_override_is_named_with_what_it_may_have_meant(override: str, said: str) -> None:
    kind = override.partition(".")[0]
    name = {"benchmark": "demo", "backbone": "openai", "pipeline": "rsl-sql"}[kind]
    with pytest.raises(ConfigurationError) as caught:
        load_settings(CONF, kind, name, [override])
    assert said in str(caught.value)
    assert all(line.startswith(f"--set {override}: ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(("content", "said"), [
    ("", "own.yaml is empty. Write keys and values into it."),
    ("- rsl-sql", "must hold keys and values, not a list"),
    ("5", "must hold keys and values, not a single value"),
    ("a: [", "own.yaml is not YAML: line 1, column 5: expected the node content"),
    ("kind: rsl-sql\nkind: few-shot", 'own.yaml is not YAML: line 2, column 1: the key "kind" occurs twice'),
    ("kind: rsl-sql\nselection: {shortcut: none, shortcut: any}", 'column 29: the key "shortcut" occurs twice'),
    ("kind: foo", 'key kind: there is no pipeline "foo"'),
    ("description: x", "key kind: which pipeline this is about is missing"),
    ("kind: rsl-sql\nselection:", "key selection: None is not keys and values"),
    ("kind: rsl-sql\nlinkng: {}", 'key linkng: there is no key "linkng". Did you mean "linking"?'),
    ("kind: few-shot\nlinking: {}", 'key linking: there is no key "linking". Valid names: candidates, demonstrations'),
    ("kind: rsl-sql\nselection: {rows_shown: five}", "key selection.rows_shown: Input should be a valid integer"),
    ("kind: rsl-sql\n1: 2", "key 1: Keys should be strings"),
])  # fmt: skip
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_pipeline_settings(CONF, str(path))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_every_problem_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("kind: rsl-sql\nlinkng: {}\nselection: {enbaled: true}\ndemonstrations: {k: x}")
    with pytest.raises(ConfigurationError) as caught:
        load_pipeline_settings(CONF, str(path))
    assert len(str(caught.value).splitlines()) == 3


def test_a_file_of_ones_own_is_named_after_itself_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("kind: rsl-sql\n", encoding="utf-8")
    assert load_pipeline_settings(CONF, str(path)).name == "mine"
    path.write_text("kind: rsl-sql\nname: yours\n", encoding="utf-8")
    assert load_pipeline_settings(CONF, str(path)).name == "yours"


@pytest.mark.parametrize(("kind", "name", "said"), [
    ("pipeline", "rslsql", 'Did you mean "rsl-sql"?'),
    ("backbone", "opnai", 'Did you mean "openai"?'),
    ("benchmark", "xyz", "Valid names: arcwise, bird-dev"),
    ("pipeline", "absent.yaml", "There is no pipeline file absent.yaml."),
    ("pipeline", "../backbones/openai", 'There is no pipeline "../backbones/openai"'),
])  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest(kind: str, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(CONF, kind, name)
    assert said in str(caught.value)


def all_models() -> list[type[Settings]]:
    PIPELINES.names()  # imports their settings
    models = [Settings]
    for model in models:
        models += model.__subclasses__()
    return [model for model in models[1:] if model.__module__.startswith("tasks.")]


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.__name__)
def test_every_model_is_strict_and_frozen_and_explains_its_fields(model: type[Settings]) -> None:
    assert model.model_config["extra"] == "forbid"
    assert model.model_config["frozen"] and model.model_config["strict"]
    by_their_name = {
        "kind", "name", "description", "prompt", "descriptions", "elements", "keywords", "conditions",
    }  # fmt: skip
    unexplained = {
        name
        for name, field in model.model_fields.items()
        if name not in field_docstrings(model) and not isinstance(field.default, Settings)
    }
    assert unexplained <= by_their_name


def evaluation(**backbone: Any) -> EvaluationSettings:
    return EvaluationSettings(
        benchmark=load_benchmark_settings(CONF, "bird-dev", ["benchmark.quarantine=[3, 5-6]"]),
        backbone=load_backbone_settings(CONF, "openai").model_copy(update=backbone),
        pipeline=load_pipeline_settings(CONF, "rsl-sql"),
        data="data",
        home="home",
    )


def test_settings_travel_as_json_as_flow_parameters_do() -> None:
    settings = evaluation()
    assert EvaluationSettings.model_validate_json(settings.model_dump_json()) == settings
    assert EvaluationSettings.model_validate(json.loads(settings.model_dump_json())) == settings
    assert settings.label == "openai | rsl-sql"


def test_quarantined_ids_may_be_written_as_the_numbers_they_are() -> None:
    assert evaluation().benchmark.quarantine == ("3", "5-6")
    with pytest.raises(ConfigurationError, match="valid string, not True"):
        load_benchmark_settings(CONF, "demo", ["benchmark.quarantine=[true]"])


def test_no_secret_is_in_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    settings = evaluation()
    assert settings.backbone.api_key_env == "OPENAI_API_KEY"
    for text in (
        settings.model_dump_json(),
        repr(settings),
        str(settings.model_dump()),
        yaml.dump(settings.model_dump(mode="json")),
    ):
        assert "sk-very-secret" not in text


@pytest.mark.parametrize("key", ["sk-proj-Abc_123-x", "sk live 1", "a" * 80, "3f9a-1c0d 5e7b"])
@pytest.mark.parametrize("setting", ["api_key_env={}", "headers_env={{api-key: {}}}"])
def test_a_key_in_the_place_of_its_variables_name_is_refused_without_being_repeated(
    tmp_path: Path, key: str, setting: str
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("model: m\n" + setting.format(key).replace("=", ": "), encoding="utf-8")
    for name, overrides in ((str(path), []), ("openai", [f"backbone.{setting.format(key)}"])):
        with pytest.raises(ConfigurationError, match="no name of an environment variable") as caught:
            load_backbone_settings(CONF, name, overrides)
        assert key not in str(caught.value)


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.__name__)
def test_every_number_has_bounds(model: type[Settings]) -> None:
    for name, field in model.model_fields.items():
        types = {field.annotation, *get_args(field.annotation)}
        bounds = {
            bound for each in field.metadata for bound in ("ge", "gt", "le", "lt") if hasattr(each, bound)
        }
        if types & {int, float}:
            assert bounds & {"ge", "gt"} and bounds & {"le", "lt"}, name
