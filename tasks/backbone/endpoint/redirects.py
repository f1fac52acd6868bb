"""Where a redirected request goes next."""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urljoin, urlsplit

SAME_METHOD = frozenset({307, 308})
SEE_OTHER = 303


@dataclass(frozen=True, slots=True)
class Target:
    """URL and method of one HTTP request."""

    url: str
    method: Literal["get", "post"] = "post"

    def redirected(self, status: int, location: str | None) -> "Target | None":
        """Return the target of a redirect; None where it must not be followed.

        The key goes to no other host, and only from http to https. A 301 or 302 turns a POST into a GET, which is no
        request for a completion.

        >>> Target("http://host/v1/chat/completions").redirected(308, "https://host/api/chat/completions")
        Target(url='https://host/api/chat/completions', method='post')
        >>> Target("https://host/v1/chat/completions").redirected(307, "https://elsewhere/") is None
        True
        """
        if not location or (status not in (*SAME_METHOD, SEE_OTHER) and self.method == "post"):
            return None
        try:
            url = urljoin(self.url, location)
            before, after = urlsplit(self.url), urlsplit(url)
            ports = before.port, after.port
        except ValueError:
            return None
        same = (before.scheme, ports[0]) == (after.scheme, ports[1])
        if before.hostname != after.hostname or not (
            same or (before.scheme, after.scheme) == ("http", "https")
        ):
            return None
        return Target(url, "get" if status == SEE_OTHER else self.method)
