"""`crosscheck export --bundle` and `crosscheck import --bundle`: a run that is scored again elsewhere."""

import json
import shutil
import socket
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.tracking.bundle.archive import read_archive, write_archive
from tests.support.command_line import CommandLine
from tests.support.in_process import run
from tests.support.scored_home import OTHER, scored_home

pytestmark = pytest.mark.slow

CANARY, HOST = "canary-5f0c4e", "canary-host-77"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, built_demo: Path) -> Path:
    """A bundle of nine answers, three of them wrong, also scored by an answer key."""
    folder = tmp_path_factory.mktemp("bundle")
    key = {"question_id": "1", "action": "replace", "sql": OTHER, "reason": "r", "source": "s"}
    (folder / "mine.json").write_text(json.dumps({"corrections": [key]}), encoding="utf-8")
    keys = f"benchmark.answer_keys={folder / 'mine.json'}"
    home = scored_home(folder, built_demo, {"answers": "147"}, "--set", keys, limit=9)
    for name in ("a.zip", "b.zip"):
        words = ("--output", str(folder / name), "--no-replies", "--home", str(home))
        ran = run("export", "latest", "--bundle", *words)
        assert ran.code == 0, ran.err
    assert (folder / "a.zip").read_bytes() == (folder / "b.zip").read_bytes()
    return folder / "a.zip"


@pytest.fixture(autouse=True)
def elsewhere(built_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder; the demo's files are copied, which only saves building them again."""
    shutil.copytree(built_demo / "benchmarks", tmp_path / "empty" / "benchmarks")
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)


def test_a_run_has_the_same_figures_elsewhere_and_what_differs_is_listed(bundle: Path) -> None:
    key = f"benchmark.answer_keys={bundle.with_name('mine.json')}"
    ran = run("import", "--bundle", str(bundle), "--set", key, "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    scores = found["record"]["scores"]
    assert (scores["bird"]["correct"], scores["mine"]["correct"], scores["bird"]["total"]) == (6, 7, 9)
    assert (found["figures"]["differing"], found["differences"]) == ([], [])
    assert found["figures"]["compared"] > 80
    assert run("show", found["run_id"], "--json").json["ex"] == scores["bird"]["ex"]
    again = run("import", "--bundle", str(bundle))
    assert again.code == 2 and f"has the run {found['run_id']} already" in again.err
    assert "imported from a bundle" in run("rerun", found["run_id"], "--only", "wrong").err


def test_other_databases_settings_and_keys_are_named_and_the_figures_that_follow_from_them(
    bundle: Path, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "empty" / "benchmarks" / "demo", tmp_path / "other")
    with sqlite3.connect(tmp_path / "other/dev_databases/city_library/city_library.sqlite") as connection:
        connection.execute("CREATE TABLE further (x)")
    settings = {"layout": "bird", "folder": "./other", "dialect": "sqlite", "revision": "2", "rule": "bird"}
    (tmp_path / "other.yaml").write_text(json.dumps(settings), encoding="utf-8")
    words = ("--bundle", str(bundle), "--benchmark", "other.yaml", "--set", "benchmark.timeout_s=7")
    ran = run("import", *words, "--json")
    assert ran.code == 1, ran.err
    named = {each["what"]: (each["bundle"], each["here"]) for each in ran.json["differences"]}
    assert named["benchmark.timeout_s"] == ("30.0", "7.0")
    assert named["sha256 of the answer key mine"][1] == "none"
    assert "sha256 of the database city_library" in named
    assert named["verdict on 1: mine, rule bird"] == ("right", "not judged")
    assert {each["what"].split(".")[1] for each in ran.json["figures"]["differing"]} >= {"mine"}
    shown = run("import", *words, "--home", str(tmp_path / "third"))
    assert "Figures that differ" in shown.out and "sha256 of the answer key mine" in shown.out


@pytest.mark.parametrize("words", [(), ("--no-replies",)])
def test_a_bundle_of_an_agent_holds_no_row_of_the_database(
    words: tuple[str, ...], built_demo: Path, tmp_path: Path
) -> None:
    call = {
        "name": "run_sql",
        "arguments": {"sql": "SELECT 1", "why": "an argument"},
        "result": f"a row: {CANARY}",
        "error": True,
    }
    turns = [{"text": "a thought", "tool_calls": [call]}, {"tool_calls": [{**call, "name": "submit"}]}]
    (tmp_path / "agent.jsonl").write_text(json.dumps({"question_id": 1, "turns": turns}), encoding="utf-8")
    shutil.copytree(built_demo, tmp_path / "first")
    home = ("--home", str(tmp_path / "first"))
    scored = run("score", "--trajectories", "agent.jsonl", "--questions", "1", *home, "--json")
    assert scored.code == 0, scored.err
    exported = run("export", "latest", "--bundle", "--output", "agent.zip", *words, *home)
    assert exported.code == 0, exported.err
    with zipfile.ZipFile("agent.zip") as archive:
        whole = "\n".join(archive.read(name).decode() for name in archive.namelist())
    assert CANARY not in whole and "SELECT 1" in whole
    assert [text in whole for text in ("a thought", "an argument")] == [not words] * 2
    imported = run("import", "--bundle", "agent.zip", "--json")
    assert imported.code == 0, imported.err
    assert (imported.json["figures"]["differing"], imported.json["differences"]) == ([], [])
    assert imported.json["record"]["metrics"]["turns"] == scored.json["metrics"]["turns"]
    shown = run("show", "latest", "1")
    assert shown.code == 0 and "submit" in shown.out


def rewritten(bundle: Path, target: Path, change: Callable[[dict[str, bytes]], Any]) -> Path:
    """Copy a bundle with its files changed, and its manifest as it was."""
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda files: files.update(
                {"questions.jsonl": files["questions.jsonl"].replace(b"'another", b"'an other")}
            ),
            "the sha256 of questions.jsonl differs",
        ),
        (lambda files: files.pop("export.json"), "the sha256 of export.json differs"),
        (lambda files: files.update({"more.json": b"{}"}), "the sha256 of more.json differs"),
        (lambda files: files.update({"manifest.json": b"{}"}), "is not a bundle of Crosscheck"),
        (
            lambda files: files.update(
                {"manifest.json": files["manifest.json"].replace(b'layout": 1', b'layout": 9')}
            ),
            "has the layout 9",
        ),
    ],
)
def test_a_bundle_that_was_changed_is_one_message(
    bundle: Path, tmp_path: Path, change: Any, said: str
) -> None:
    ran = run("import", "--bundle", str(rewritten(bundle, tmp_path / "changed.zip", change)))
    assert ran.code == 2 and said in ran.err and "Traceback" not in ran.err, ran.err
    assert not (tmp_path / "empty" / "warehouse.duckdb").exists()


def forged(bundle: Path, target: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Write a bundle with another run and digests that fit."""
    files = dict(read_archive(bundle).files)
    run_file = json.loads(files["run.json"])
    change(run_file)
    write_archive(target, files | {"run.json": json.dumps(run_file).encode()})
    return target


def test_a_forged_bundle_names_no_file_server_or_code_that_is_used(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("open('executed', 'w').close()")
    code = f"{tmp_path}/evil.py:evil"
    hostile = {
        "layout": code,
        "metrics": [code],
        "url": "postgresql://nowhere.example/x",
        "folder": "/nowhere",
    }
    hostile |= {"answer_keys": [f"mine={tmp_path}/evil.json"], "transpile_predictions": "nothing"}
    other = forged(
        bundle, tmp_path / "a.zip", lambda run_file: run_file["settings"]["benchmark"].update(hostile)
    )
    ran = run("import", "--bundle", str(other), "--json")
    assert ran.code == 1, ran.err
    assert ran.json["record"]["scores"]["bird"]["correct"] == 6
    assert not (tmp_path / "executed").exists()
    wrong = forged(
        bundle, tmp_path / "b.zip", lambda run_file: run_file.update(run_id="../../20261121-020000-3f9a1c")
    )
    refused = run("import", "--bundle", str(wrong))
    assert refused.code == 2 and "no run has such an id" in refused.err
    for place, named in enumerate(({"benchmark": "/srv/evil.yaml"}, {"pipeline": code})):
        file = forged(
            bundle, tmp_path / f"named-{place}.zip", lambda run_file, named=named: run_file.update(named)
        )
        refused = run("import", "--bundle", str(file))
        assert refused.code == 2 and "which is a file and no name" in refused.err
    assert not (tmp_path / "executed").exists()


def test_what_is_no_bundle_or_does_not_fit_is_one_message(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.zip").write_bytes(bundle.read_bytes()[:-200])
    (tmp_path / "text.zip").write_text("no archive")
    demo = tmp_path / "empty" / "benchmarks" / "demo"
    questions = json.loads((demo / "dev.json").read_text(encoding="utf-8"))
    (demo / "few.json").write_text(json.dumps(questions[1:]), encoding="utf-8")
    few = {"layout": "bird", "folder": str(demo), "questions": "few.json", "revision": "2", "rule": "bird"}
    (tmp_path / "few.yaml").write_text(json.dumps(few), encoding="utf-8")
    for words, said in (
        (("--bundle", "cut.zip"), "not a whole bundle"),
        (("--bundle", "text.zip"), "not a whole bundle"),
        (("--bundle", "missing.zip"), "cannot be read: No such file"),
        (("--bundle", str(bundle), "--sha256", "ab12"), "not the bundle of --sha256"),
        (("--bundle", str(bundle), "--replies", "r.jsonl"), "the bundle has no replies"),
        (("--bundle", str(bundle), "--set", "backbone.model=x"), "only benchmark.* can be set"),
        (("--bundle", str(bundle), "--benchmark", "few.yaml"), "1 question of the run cannot be found in"),
        (("--bundle", str(bundle), "rsl-sql", "--output", "x"), "cannot be combined"),
    ):
        ran = run("import", *words)
        assert ran.code == 2 and said in ran.err and "Traceback" not in ran.err, (words, ran.err)


@pytest.mark.slow
def test_a_bundle_of_a_models_run_holds_its_replies_and_no_key_place_or_name(
    crosscheck: CommandLine,
    built_demo: Path,
    backbone_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(built_demo, crosscheck.home, dirs_exist_ok=True)
    with Path(backbone_file).open("a", encoding="utf-8") as file:
        file.write("api_key_env: CANARY_KEY\n")
    crosscheck.environment = {**crosscheck.environment, "CANARY_KEY": CANARY}
    note = f"on {HOST} in {tmp_path}/folder with {CANARY}"
    folder = ("--set", "backbone.model=/srv/canary-folder/local-model")
    ran = crosscheck.run(
        "evaluate", "--backbone", backbone_file, "--limit", "6", "--note", note, *folder, "--json"
    )
    assert ran.code == 0, ran.err
    run_id = ran.json["run_id"]
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    monkeypatch.setenv("CANARY_KEY", CANARY)
    from_home = ("--home", str(crosscheck.home))
    exported = run("export", run_id, "--bundle", *from_home, "--json")
    assert exported.code == 0, exported.err
    assert exported.json["replies"] > 6 and exported.json["missing_replies"] == 0
    gold = json.loads((built_demo / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8"))
    with zipfile.ZipFile(f"{run_id}.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    whole = "\n".join(texts.values())
    for what in (
        CANARY,
        HOST,
        "canary-folder",
        str(tmp_path),
        str(Path.home()),
        str(crosscheck.home),
        gold[0]["question"],
    ):
        assert what not in whole, what
    unanswered = [each["SQL"] for each in gold[:6] if each["SQL"] not in texts["replies.jsonl"]]
    assert unanswered and not any(json.dumps(sql)[1:-1] in whole for sql in unanswered)

    imported = run("import", "--bundle", f"{run_id}.zip", "--replies", "replies.jsonl", "--json")
    assert imported.code == 0, imported.err
    assert (imported.json["figures"]["differing"], imported.json["differences"]) == ([], [])
    before, after = (
        run("show", run_id, "--details", *home).out.split("Scores")[1].split("MLflow   ")[0].splitlines()
        for home in (from_home, ())
    )
    before = [line.replace("/srv/canary-folder/", "") for line in before]
    assert any("No demonstration" in line for line in before)
    assert [line for line in after if "Imported from a bundle" not in line] == before
    served = crosscheck.run(
        "evaluate", "--backbone", "replay", "--limit", "6", "--json",
        "--set", f"backbone.recording={tmp_path}/replies.jsonl",
    )  # fmt: skip
    assert served.code == 0 and served.json["correct"] == ran.json["correct"], served.err
