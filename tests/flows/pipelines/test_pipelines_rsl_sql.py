"""RSL-SQL as a whole: which stages run in which order, what each is shown, and what every switch changes."""

from dataclasses import replace

import pytest

from tasks.core.errors import ConfigurationError
from tests.support.guide import GOOD, OTHER, REPLIES, Guide
from tests.support.stage_bench import QUESTION

EMPTY, WRONG = "SELECT name FROM museum WHERE id > 9", "SELECT nam FROM museum"
AUGMENTATION = ["augmentation_conditions", "augmentation_elements", "augmentation_keywords"]
DEFAULT = [
    "forward_link", "preliminary_sql", "backward_link", *AUGMENTATION, "augmented_sql", "binary_selection",
    "self_correction",
]  # fmt: skip


def schema_in(prompt: str) -> str:
    """The schema section of a prompt."""
    return prompt.partition("### Schema\n")[2].partition("\n\n")[0]


async def test_the_four_steps_take_seven_calls_and_twelve_when_nothing_helps(walk: Guide) -> None:
    found = await walk()
    assert found.stages == DEFAULT
    assert found.calls == 7
    assert found.sql == OTHER
    assert found.candidates == {
        "1_preliminary_sql": GOOD,
        "2_augmented_sql": OTHER,
        "3_binary_selection": OTHER,
        "4_self_correction": OTHER,
    }
    assert found.record.notes == []
    empty = [{"sql": f"{EMPTY} AND {number}"} for number in range(4)] + [{"sql": EMPTY}]
    walk.replies |= {"self_correction": empty, "binary_selection": {"sql": WRONG}}
    found = await walk()
    assert found.calls == 12
    assert found.sql == found.candidates["4_self_correction"] == EMPTY
    assert found.candidates["3_binary_selection"] == WRONG
    assert found.record.notes == ["selection wrote a third query", "self-correction ended with status: empty"]


async def test_links_go_both_ways_and_what_follows_sees_their_union_only(walk: Guide) -> None:
    walk.replies["preliminary_sql"] = {"sql": 'SELECT museum_id FROM "order"'}
    found = await walk()
    links = {name: [str(column) for column in link.columns] for name, link in found.record.links.items()}
    assert links["forward"] == ["museum.name", "museum.city"]
    # By substring: `id` of every table is found inside of `museum_id`.
    assert links["backward"] == [
        "museum.id", "order.id", "order.museum_id", "guide.id", "guide.museum_id",
    ]  # fmt: skip
    assert set(links["both"]) == {*links["forward"], *links["backward"]}
    for template in ("augmentation_keywords", "augmented_sql", "binary_selection"):
        assert schema_in(found.asked[template][0]) == (
            "# `museum`(`id`, `name`, `city`)\n# `order`(`id`, `museum_id`)\n# `guide`(`id`, `museum_id`)"
        )
    assert "`opened in`" in schema_in(found.asked["preliminary_sql"][0])
    assert "`opened in`" in schema_in(found.asked["forward_link"][0])
    assert schema_in(found.asked["forward_link"][1]) == schema_in(found.asked["augmented_sql"][0])
    parsed = await walk("rsl-sql", "linking.backward.match=parsed")
    assert [str(column) for column in parsed.record.links["backward"].columns] == ["order.museum_id"]


WHOLE = "# `museum`(`id`, `name`, `opened in`, `city`)\n# `order`(`id`, `museum_id`, `total.eur`, `no``te`)"


@pytest.mark.parametrize(("directions", "shown"), [
    ("both", "# `museum`(`name`, `city`)\n# `guide`(`language`)"),
    ("forward", "# `museum`(`name`, `city`)"),
    ("backward", "# `guide`(`language`)"),
    ("none", WHOLE),
])  # fmt: skip
async def test_the_schema_is_reduced_to_the_directions_asked_for(
    walk: Guide, directions: str, shown: str
) -> None:
    walk.replies["preliminary_sql"] = {"sql": "SELECT language FROM guide"}
    found = await walk("rsl-sql", f"linking.directions={directions}", "linking.backward.match=word")
    assert schema_in(found.asked["augmented_sql"][0]).startswith(shown)
    assert list(found.record.links) == ["forward", "backward", "both"]


async def test_a_reduced_schema_has_the_foreign_keys_of_its_columns_and_no_others(walk: Guide) -> None:
    walk.replies |= {
        "forward_link": {"tables": [], "columns": ["museum.name", "order.total.eur"]},
        "preliminary_sql": {"sql": "SELECT 1"},
    }
    reduced = await walk()
    for template in ("augmentation_keywords", "augmented_sql", "binary_selection"):
        assert "museum_id" not in reduced.asked[template][0], template
    with_keys = await walk("rsl-sql", "linking.keep_keys=true")
    assert "# `order`.`museum_id` -> `museum`.`id`" in with_keys.asked["augmented_sql"][0]
    assert "`guide`" not in with_keys.asked["augmented_sql"][0]


async def test_an_empty_link_falls_back_to_the_full_schema_and_the_gold_s_is_for_evaluations_only(
    walk: Guide,
) -> None:
    walk.replies |= {"forward_link": {"tables": [], "columns": []}, "preliminary_sql": {"sql": "SELECT 1"}}
    found = await walk(question=replace(QUESTION, evidence=""))
    assert not found.record.links["both"].columns
    assert schema_in(found.asked["augmented_sql"][0]) == schema_in(found.asked["forward_link"][0])
    with pytest.raises(ConfigurationError, match="there is nothing from the gold SQL"):
        await walk("rsl-sql", "linking.directions=gold")


async def test_iterations_pass_on_what_was_linked_and_unite_it(walk: Guide) -> None:
    linked = (["museum.name"], ["order.total.eur"], ["museum.opened in"], [])
    written = ("SELECT language FROM guide", "SELECT 2", "SELECT 3")
    walk.replies |= {
        "forward_link": [{"tables": [], "columns": columns} for columns in linked],
        "preliminary_sql": [{"sql": sql} for sql in written],
    }
    settings = ("linking.iterations=3", "linking.forward.hint_source=none", "linking.backward.match=word")
    found = await walk("rsl-sql", *settings)
    first, second, third, elements = found.asked["forward_link"]
    hint = "### Linked so far\n"
    assert hint not in first and hint not in elements
    assert f"{hint}museum.name, guide.language\n" in second
    assert f"{hint}museum.name, `order`.`total.eur`, guide.language\n" in third
    assert [str(column) for column in found.record.links["both"].columns] == [
        "museum.name", "museum.opened in", "order.total.eur", "guide.language",
    ]  # fmt: skip
    assert found.candidates["1_preliminary_sql"] == "SELECT 3"
    steps = ("forward_link", "preliminary_sql", "backward_link")
    assert found.stages[:9] == [f"{step}{number}" for number in ("", " 2", " 3") for step in steps]


async def test_an_iteration_without_sql_keeps_that_of_the_one_before(walk: Guide) -> None:
    walk.replies["preliminary_sql"] = [{"sql": GOOD}, {"sql": ""}]
    found = await walk("rsl-sql", "linking.iterations=2")
    assert found.candidates["1_preliminary_sql"] == GOOD


async def test_the_augmentation_is_asked_for_all_at_once(walk: Guide) -> None:
    walk.bench.server.latency = 0.1
    await walk("rsl-sql", "selection.enabled=false", "correction.rounds=0")
    assert walk.bench.server.most_in_flight == 3


@pytest.mark.parametrize(("switch", "section"), [
    ("elements", "### Linked columns"),
    ("keywords", "### Keywords that may be needed"),
    ("conditions", "### Conditions in the question"),
])  # fmt: skip
async def test_a_part_of_the_augmentation_that_is_off_is_neither_asked_for_nor_shown(
    walk: Guide, switch: str, section: str
) -> None:
    on, off = await walk(), await walk("rsl-sql", f"augmentation.{switch}=false")
    assert section in on.asked["augmented_sql"][0]
    assert section not in off.asked["augmented_sql"][0]
    assert set(on.stages) - set(off.stages) == {f"augmentation_{switch}"}
    assert off.calls == on.calls - 1


async def test_descriptions_that_are_off_are_shown_nowhere(walk: Guide) -> None:
    walk.replies |= {
        "forward_link": {"tables": [], "columns": ["museum.opened in"]},
        "binary_selection": {"sql": WRONG},
    }
    heading = "### Column descriptions"
    on, off = await walk(), await walk("rsl-sql", "augmentation.descriptions=false")
    reduced = ("augmentation_keywords", "augmented_sql", "binary_selection", "self_correction")
    for template in reduced:
        assert heading in on.asked[template][0], template
    assert not any(heading in prompt for prompts in off.asked.values() for prompt in prompts)
    # The first step never shows them; the elements, by the same template, do.
    assert [heading in prompt for prompt in on.asked["forward_link"]] == [False, True]
    assert heading not in on.asked["preliminary_sql"][0]


async def test_without_selection_the_second_sql_goes_on_and_without_rounds_there_is_no_correction(
    walk: Guide,
) -> None:
    found = await walk("rsl-sql", "selection.enabled=false")
    assert "binary_selection" not in found.stages
    assert found.candidates["3_binary_selection"] == OTHER == found.sql
    walk.replies["binary_selection"] = {"sql": WRONG}
    for before in ("true", "false"):
        found = await walk("rsl-sql", "correction.rounds=0", f"correction.before_selection={before}")
        assert found.stages == DEFAULT[:-1]
        assert list(found.candidates) == ["1_preliminary_sql", "2_augmented_sql", "3_binary_selection"]


async def test_both_candidates_can_be_corrected_before_one_is_selected(walk: Guide) -> None:
    walk.replies |= {
        "preliminary_sql": {"sql": WRONG},
        "augmented_sql": {"sql": EMPTY},
        "self_correction": [{"sql": GOOD}, {"sql": EMPTY}, {"sql": EMPTY}],
        "binary_selection": {"sql": GOOD},
    }
    found = await walk("rsl-sql", "correction.before_selection=true", "correction.rounds=2")
    assert found.stages[-3:] == ["self_correction", "self_correction 2", "binary_selection"]
    assert f"### SQL 1\n{GOOD}\n" in found.asked["binary_selection"][0]
    assert f"### SQL 2\n{EMPTY}\n" in found.asked["binary_selection"][0]
    assert found.sql == GOOD == found.candidates["3_binary_selection"]
    assert found.record.notes == ["self-correction of SQL2 ended with status: empty"]


async def test_a_model_that_never_says_anything_useful_ends_without_sql_and_without_a_crash(
    walk: Guide,
) -> None:
    walk.replies = dict.fromkeys(walk.replies, "I would rather not.")
    found = await walk()
    assert found.sql is None
    assert set(found.candidates.values()) == {None}
    # Two readings of each of six calls before selection, none for selection, five rounds of correction.
    assert found.calls == 2 * 6 + 2 * 5
    assert found.record.notes == ["self-correction ended with status: no_answer"]
    silent = {"backward_link"}
    assert all(record.notes for record in found.question_run.records if record.stage not in silent)


async def test_the_shown_demonstrations_have_their_evidence_only_where_asked_for(walk: Guide) -> None:
    for evidence in (True, False):
        found = await walk("rsl-sql", f"demonstrations.evidence={str(evidence).lower()}")
        for template in ("preliminary_sql", "augmented_sql", "binary_selection"):
            shown = found.asked[template][0].partition("### Examples")[2]
            assert "SQL: SELECT COUNT(*) FROM zoo" in shown
            assert ("Evidence: zoos" in shown) is evidence
        assert not any("zoo" in prompt for prompt in found.asked["forward_link"])


@pytest.mark.parametrize(("override", "template", "shown"), [
    ("prompt.schema_format=create_table", "preliminary_sql", "CREATE TABLE museum ("),
    ("prompt.schema_format=m_schema", "augmented_sql", "# Table: museum"),
    ("prompt.sample_rows=1", "forward_link", "# museum(id: 1, name: 'Glass House', "),
    ("linking.forward.max_columns_per_table=4", "forward_link", "at most 4 columns"),
    ("selection.rows_shown=1", "binary_selection", "\nGlass House\n(3 rows, first 1 shown)\n\n"),
    ("prompt.demonstrations_first=true", "augmented_sql", "queries.\n\n### Examples\nQuestion: "),
    ("prompt.longest_value=4", "forward_link", "'Glas...'"),
    ("linking.descriptions=true", "preliminary_sql", "The year in which it opened."),
])  # fmt: skip
async def test_a_setting_reaches_the_prompts(walk: Guide, override: str, template: str, shown: str) -> None:
    walk.replies["preliminary_sql"] = {"sql": "SELECT name FROM museum ORDER BY id"}
    assert shown not in (await walk()).asked[template][-1]
    assert shown in (await walk("rsl-sql", override)).asked[template][-1]


@pytest.mark.parametrize(("override", "templates", "shown"), [
    ("selection.counts=false", ["binary_selection"], "(1 row)"),
    ("selection.demonstrations=false", ["binary_selection"], "### Examples"),
    ("linking.shown=none", ["preliminary_sql"], "### Linked"),
    ("correction.augmentation=false", ["self_correction"], "### Keywords that may be needed\nDISTINCT"),
    ("correction.augmentation=false", ["self_correction"], "### Conditions in the question\n- of Lyon"),
    ("prompt.sample_rows=0", list(REPLIES), "### Sample values"),
    ("prompt.foreign_keys=false", list(REPLIES), "### Foreign keys"),
])  # fmt: skip
async def test_a_setting_takes_a_part_of_the_prompts_away(
    walk: Guide, override: str, templates: list[str], shown: str
) -> None:
    walk.replies |= {"binary_selection": {"sql": EMPTY}}
    plain, without = await walk(), await walk("rsl-sql", override)
    for walked, there in ((plain, True), (without, False)):
        assert any(shown in walked.asked[template][0] for template in templates) is there


async def test_sql1_is_shown_what_the_model_named_and_the_hints_join_the_link_afterwards(walk: Guide) -> None:
    walk.replies["forward_link"] = {"tables": ["guide"], "columns": ["guide.language"]}
    found = await walk()
    assert "### Linked tables\nguide\n" in found.asked["preliminary_sql"][0]
    assert [str(column) for column in found.record.links["forward"].columns] == [
        "museum.city",
        "guide.language",
    ]
    hinted = await walk("rsl-sql", "linking.shown=with_hints")
    assert "### Linked tables\nmuseum, guide\n" in hinted.asked["preliminary_sql"][0]


async def test_random_rows_and_missing_shares_are_shown_the_same_for_every_question(walk: Guide) -> None:
    settings = (
        "prompt.rows=random",
        "prompt.sample_rows=2",
        "prompt.missing=true",
        "prompt.schema_format=m_schema",
    )
    first = await walk("rsl-sql", *settings)
    other = await walk("rsl-sql", *settings, question=replace(QUESTION, text="How many?"))
    shown = schema_in(first.asked["forward_link"][0])
    assert shown == schema_in(other.asked["forward_link"][0])
    assert "(city:TEXT, Missing: 33 %, Examples: [" in shown
    assert shown.count("Examples: [") == 11 and "Missing: 0" not in shown
    seeded = [await walk("rsl-sql", *settings, f"prompt.row_seed={number}") for number in range(4)]
    assert len({schema_in(found.asked["forward_link"][0]) for found in seeded}) > 1


async def test_the_acl_variant_takes_hints_from_both_and_takes_the_shortcut(walk: Guide) -> None:
    walk.replies |= {
        "forward_link": {"tables": [], "columns": ["museum.name"]},
        "preliminary_sql": {"sql": 'SELECT museum_id FROM "order"'},
        "augmented_sql": {"sql": 'SELECT "museum_id" FROM "order"'},
    }
    question = replace(QUESTION, text="Which language?", evidence="city")
    found = await walk("rsl-sql-acl", question=question)
    links = {name: [str(column) for column in link.columns] for name, link in found.record.links.items()}
    assert links["forward"] == ["museum.name", "museum.city", "guide.language"]
    assert links["backward"] == ["order.museum_id"]
    assert "(city:TEXT, Missing: 33 %" in found.asked["forward_link"][0]
    assert found.asked["binary_selection"] == []
    assert found.calls == 6


@pytest.mark.parametrize(("pipeline", "examples"), [("few-shot", True), ("zero-shot", False)])
async def test_the_baselines_ask_once_with_the_full_schema(
    walk: Guide, pipeline: str, examples: bool
) -> None:
    found = await (walk(pipeline) if examples else walk(pipeline, demonstrations=()))
    assert found.stages == ["preliminary_sql"]
    assert found.calls == 1
    assert found.candidates == {"1_preliminary_sql": GOOD} and found.sql == GOOD
    (prompt,) = found.asked["preliminary_sql"]
    assert ("### Examples" in prompt) is examples
    assert "`guide`" in prompt and "### Linked" not in prompt and "### Column descriptions" not in prompt
    described = await walk(pipeline, "descriptions=true")
    assert "### Column descriptions" in described.asked["preliminary_sql"][0]
