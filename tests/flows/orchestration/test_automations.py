"""What the address of a webhook has to be; `tests/flows/servers/test_up_command.py` has one called."""

import pytest

from flows.orchestration.automations import WEBHOOK, notify_of_nights
from tasks.core.errors import ConfigurationError


async def test_what_is_no_address_is_refused_without_repeating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK, "hooks.example.com/s3cret")
    with pytest.raises(ConfigurationError, match="begins with http") as refused:
        await notify_of_nights()
    assert "s3cret" not in str(refused.value)
