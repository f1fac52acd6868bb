"""The registry: built-in names, a user's file, an installed package, and errors that say what was meant."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.core import registry as registry_module
from tasks.core.errors import ConfigurationError
from tasks.core.registry import Registry, absolute, import_file, is_in_file
from tasks.settings.kinds import BACKBONES, LAYOUTS, PIPELINES
from tests.support.command_line import ROOT
from tests.support.packages import install


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that offers a shape named `square`, and one that cannot be imported."""
    offers = "[test.shapes]\nsquare = shapes:square\nbroken = shapes:absent\n"
    install(tmp_path, "shapes", "square = 4\n", offers)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def _several(installed: Path) -> Iterator[None]:
    """Packages that end the process, give a value of another type, or offer names that others have."""
    offers = (
        "[test.shapes]\nends = ends:x\nsquare = ends:square\ntriangle = shapes:square\ntext = words:text\n"
    )
    install(installed, "ends", "raise SystemExit(0)\n", offers)
    install(installed, "words", "text = 'circle'\n", "[test.shapes]\n")
    registry_module._entry_points.cache_clear()
    registry_module.warn_once.cache_clear()
    yield
    for module in ("shapes", "words"):
        sys.modules.pop(module, None)


def shapes() -> "Registry[int]":
    registry: Registry[int] = Registry("shape", package="tests.support", group="test.shapes", base=int)
    registry._imported = True  # nothing is built in
    registry._implementations["triangle"] = 3
    return registry


@pytest.mark.usefixtures("_several")
def test_packages_that_cannot_be_used_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    registry = shapes()
    assert registry.usable() == registry.usable() == {"triangle": 3}
    point = 'The shape "{}" of the entry point {} '
    assert sorted(caplog.messages) == [
        '"triangle" is Crosscheck\'s own shape. That of an installed package is not used: rename its entry point.',
        point.format("broken", "shapes:absent")
        + "cannot be imported: AttributeError: module 'shapes' has no attribute 'absent'. It is left out.",
        point.format("ends", "ends:x")
        + f"cannot be imported: {sys.path[0]}/ends.py:1, in <module>: SystemExit: 0. It is left out.",
        point.format("text", "words:text") + "is of the type str, not int. It is left out.",
        'Two installed packages offer the shape "square" (ends:square and shapes:square): uninstall one. '
        "It is left out.",
    ]
    with pytest.raises(ConfigurationError, match='Two installed packages offer the shape "square"'):
        registry.get("square")


def test_what_ships_is_found_without_being_listed_anywhere() -> None:
    assert {"agent", "dac", "few-shot", "native", "rsl-sql", "sea-sql"} <= set(PIPELINES.names())
    assert {"anthropic", "offline", "openai", "openai-responses", "replay"} <= set(BACKBONES.names())
    assert {"bird", "bird-test", "demo", "kaggle-dbqa", "spider", "spider2-lite"} <= set(LAYOUTS.names())


def test_what_a_package_offers_is_found_by_name_and_imported_when_asked_for(installed: Path) -> None:
    registry = shapes()
    assert registry.names() == ("broken", "square", "triangle")
    assert "shapes" not in sys.modules
    assert registry.get("square") == 4
    with pytest.raises(
        ConfigurationError, match="entry point shapes:absent cannot be imported: AttributeError"
    ):
        registry.get("broken")
    del sys.modules["shapes"]


def test_an_attribute_of_a_file_is_found_and_the_file_is_imported_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("pentagon = object()\n", encoding="utf-8")
    assert shapes().get(f"{file}:pentagon") is shapes().get(f"{file}:pentagon")


@pytest.mark.parametrize(("name", "said"), [
    ("trinagle", 'There is no shape "trinagle". Did you mean "triangle"?'),
    ("absent.py:shape", "absent.py: no such file, so there is no shape in it."),
    ("mine.py:pentagn", 'mine.py has no shape "pentagn". Did you mean "pentagon"?'),
    ("wrong.py:shape", "ZeroDivisionError: division by zero"),
    ("ends.py:shape", "SystemExit: 4"),
])  # fmt: skip
def test_a_wrong_name_says_what_is_wrong(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "mine.py").write_text("pentagon = 5\n", encoding="utf-8")
    (tmp_path / "wrong.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / "ends.py").write_text("raise SystemExit(4)\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        shapes().get(absolute(name, tmp_path))
    assert said in str(caught.value)


def test_two_implementations_of_one_name_are_refused() -> None:
    registry = shapes()
    with pytest.raises(ValueError, match='two implementations of shape "triangle"'):
        registry.register("triangle")(33)


def test_the_module_name_of_a_file_is_the_same_in_every_process(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("", encoding="utf-8")
    program = (
        "import sys, pathlib; from tasks.core.registry import import_file\n"
        "print(import_file(pathlib.Path(sys.argv[1]), 'shape').__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", program, file], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout.strip() == import_file(file, "shape").__name__


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a/b.py:c", True), ("b.py", False), ("rsl-sql", False), ("b.py:", False), ("http://h:1", False)],
)
def test_what_names_an_attribute_of_a_file(name: str, expected: bool) -> None:
    assert is_in_file(name) is expected
    assert absolute(name, Path("/there")) == (f"/there/{name}" if expected else name)
