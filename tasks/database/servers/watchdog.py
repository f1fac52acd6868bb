"""A timer that ends a query from outside, where the server's own deadline does not."""

import threading
from collections.abc import Callable


class Watchdog:
    """Calls a function in a thread of its own after so many seconds, unless it is stopped before."""

    def __init__(self, seconds: float, act: Callable[[], object]) -> None:
        self._act = act
        self._fired = False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> bool:
        """Stop it, and return whether it has acted; then its connection may not be used again."""
        self._timer.cancel()
        if self._fired:
            self._timer.join(1.0)
        return self._fired

    def _fire(self) -> None:
        self._fired = True
        self._act()
