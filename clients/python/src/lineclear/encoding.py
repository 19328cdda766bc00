"""JSON, moments and durations, as the API writes them."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")
#: `json.dumps` would make one for each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dumps(value: Any) -> bytes:
    """JSON without white space. NaN, infinity and lone surrogates are no JSON: `ValueError`."""
    return _ENCODER.encode(value).encode()


def loads(text: bytes) -> Any:
    """Reads JSON."""
    return json.loads(text)


def milliseconds(duration: timedelta | float) -> int:
    """A duration, in seconds or as `timedelta`, in whole milliseconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not 0 <= seconds < 1e12:
        raise ValueError(f"a duration must not be negative or infinite: {seconds}")
    return round(seconds * 1000)


def moment(value: datetime | str) -> str:
    """A moment in RFC 3339."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError("a `datetime` must have a time zone, for instance `datetime.now(timezone.utc)`")
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def read_moment(text: str | None) -> datetime | None:
    """Reads a moment in RFC 3339, which `datetime.fromisoformat` does only from Python 3.11 on."""
    if text is None:
        return None
    parts = _MOMENT.match(text)
    if parts is None:
        raise ValueError(f"not a moment in RFC 3339: {text!r}")
    seconds, fraction, zone = parts.groups()
    micros = ((fraction or "") + "000000")[:6]
    return datetime.fromisoformat(f"{seconds}.{micros}{'+00:00' if zone == 'Z' else zone}")
