"""Puts conf/ into the wheel, as tasks/conf; all else that is to be said about the package is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConf(build_py):
    """Copy of the modules and of conf/; an editable installation reads conf/ in the checkout."""

    def run(self) -> None:
        """Copy everything into the folder that becomes the wheel."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tasks" / "conf"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(Path(__file__).parent / "conf", target)


setup(cmdclass={"build_py": BuildWithConf})
