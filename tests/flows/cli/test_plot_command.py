"""`crosscheck plot` on runs of the demo, and the figures of the Python interface."""

from pathlib import Path

import pytest
from matplotlib import image

from crosscheck import Crosscheck
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow


def test_figures_of_real_runs(demo: CommandLine, tmp_path: Path) -> None:
    for pipeline in ("rsl-sql", "few-shot"):
        assert demo.run("evaluate", "--pipeline", pipeline, "--limit", "12").code == 0
    for kind in ("stages", "causes", "trend"):
        file = tmp_path / f"{kind}.png"
        ran = demo.run("plot", "latest~1", "latest", "--kind", kind, "--output", str(file))
        assert (ran.code, ran.out) == (0, f"The figure is {file}.\n"), ran.err
        assert image.imread(file).std() > 0.01
    free = demo.run("plot", "latest", "--kind", "pareto", "--output", str(tmp_path / "pareto.pdf"))
    assert free.code == 2 and "free" in free.err and not (tmp_path / "pareto.pdf").exists()
    assert demo.run("plot", "nothing").code == 2
    assert "must end in" in demo.run("plot", "latest", "--output", "figure.gif").err


def test_a_run_in_python_draws_itself_and_shows_itself_in_a_notebook(
    demo: CommandLine, tmp_path: Path
) -> None:
    crosscheck = Crosscheck(home=demo.home, quiet=True)
    run = crosscheck.evaluate(pipeline="few-shot", limit=3)
    figure = crosscheck.plot(run, kind="stages", file=tmp_path / "stages.svg")
    assert figure.axes and (tmp_path / "stages.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert f"{run.correct} of {run.total}" in run._repr_html_()
    other = crosscheck.evaluate(pipeline="zero-shot", limit=3)
    assert len(crosscheck.plot(run, other, kind="stages", columns=2).axes) == 2
    assert "<table" in crosscheck.compare(run, other)._repr_html_()
