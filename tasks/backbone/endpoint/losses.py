"""Classification of what the network does to a request: no connection, no answer in time, a damaged answer."""

from collections.abc import Callable

from tasks.backbone.endpoint.connection import TooLongAnswerError
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.endpoint.retry_policy import CONNECT_S

UP = "Is the endpoint up, and backbone.base_url right?"


def loss_of(error: Exception, clean: Callable[[str], str], timeout_s: float) -> Refusal:
    """Classify an error of the network; raise any other error again.

    Args:
        error: what sending a request raised.
        clean: removes secrets from a text.
        timeout_s: seconds that a request may take.
    """
    import aiohttp

    message = clean(" ".join(str(error).split()))[:200] or type(error).__name__
    match error:
        case TooLongAnswerError():
            return Refusal("request", message, "Set backbone.max_tokens to limit replies.")
        case aiohttp.ConnectionTimeoutError():
            return Refusal("connection", f"no connection within {min(timeout_s, CONNECT_S):g} s", UP)
        case TimeoutError():
            message = f"no reply within {timeout_s:g} s"
            return Refusal("timeout", message, "Raise backbone.timeout_s if that is usual.")
        case aiohttp.ClientPayloadError():
            return Refusal("garbled", f"the answer is cut off or damaged ({message})")
        case aiohttp.ClientResponseError():
            return Refusal("garbled", f"the answer is not HTTP ({message})")
        case aiohttp.ClientError() | OSError():
            return Refusal("connection", f"connection failed ({message})", UP)
    raise error
