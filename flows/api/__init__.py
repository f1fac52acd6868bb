"""Public interface for Python programs and notebooks: `from flows.api import Crosscheck`.

Everything else in `flows` and `tasks` may change between releases, except what CONTRIBUTING.md shows for extensions.
"""

from flows.api.crosscheck import Crosscheck
from flows.api.records import Answer, Comparison, Run, Sweep
from tasks.errors import CrosscheckError

__all__ = ["Answer", "Comparison", "Crosscheck", "CrosscheckError", "Run", "Sweep"]
