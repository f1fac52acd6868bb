"""Times that users name."""

import datetime


def next_time(text: str, now: datetime.datetime) -> datetime.datetime:
    """Return the time that a text names: an ISO 8601 time, or the next time of day in the time zone of `now`.

    >>> night = datetime.datetime(2026, 11, 24, 22, 30, tzinfo=datetime.UTC)
    >>> next_time("07:00", night).isoformat()
    '2026-11-25T07:00:00+00:00'
    >>> next_time("23:00", night).isoformat()
    '2026-11-24T23:00:00+00:00'
    >>> next_time("2026-11-26T05:00:00+01:00", night).isoformat()
    '2026-11-26T05:00:00+01:00'

    Raises:
        ValueError: the text is neither.
    """
    if len(text) <= len("00:00:00"):
        found = datetime.datetime.combine(now.date(), datetime.time.fromisoformat(text), now.tzinfo)
        return found if found > now else found + datetime.timedelta(days=1)
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
