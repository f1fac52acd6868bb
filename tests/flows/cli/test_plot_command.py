"""`crosscheck plot` on runs of the demo, and the figures of the Python interface."""

from pathlib import Path

import pytest
from matplotlib import image

from crosscheck import Crosscheck
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow


def test_figures_of_real_runs(demo: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in demo.environment.items():
        monkeypatch.setenv(name, value)
    crosscheck = Crosscheck(home=demo.home, quiet=True)
    run, other = (crosscheck.evaluate(pipeline=pipeline, limit=6) for pipeline in ("few-shot", "rsl-sql"))
    figure = crosscheck.plot(run, kind="stages", file=tmp_path / "stages.svg")
    assert figure.axes and (tmp_path / "stages.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert f"{run.correct} of {run.total}" in run._repr_html_()
    assert len(crosscheck.plot(run, other, kind="stages", columns=2).axes) == 2
    comparison = crosscheck.compare(run, other)
    assert comparison.verdict in comparison._repr_html_()
    for kind in ("stages", "causes", "trend"):
        file = tmp_path / f"{kind}.png"
        ran = demo.run("plot", "latest~1", "latest", "--kind", kind, "--output", str(file))
        assert (ran.code, ran.out) == (0, f"The figure is {file}.\n"), ran.err
        assert image.imread(file).std() > 0.01
    free = demo.run("plot", "latest", "--kind", "pareto", "--output", str(tmp_path / "pareto.pdf"))
    assert free.code == 2 and "free" in free.err and not (tmp_path / "pareto.pdf").exists()
    assert demo.run("plot", "nothing").code == 2
    assert "must end in" in demo.run("plot", "latest", "--output", "figure.gif").err
