"""Schedules of manifests.

    client.manifests.put("nightly", "report", schedule=cron("30 2 * * *", tz="Europe/Berlin"))
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Mapping

from lineclear.encoding import moment

Schedule = Mapping[str, Any]


def cron(expression: str, *, tz: str | None = None, **options: Any) -> Schedule:
    """By a cron expression of 5 fields, or 6 with seconds first. `options`: `gap`, `fold`, `start`, `end`."""
    zone = {} if tz is None else {"tz": tz}
    return {"cron": expression, **zone, **options}


def every(interval: str, **options: Any) -> Schedule:
    """Every so often, such as `90s`, `5m` or `1h30m`. `options`: `phase`, `start`, `end`."""
    return {"every": interval, **options}


def once(at: datetime | str) -> Schedule:
    """At one moment."""
    return {"once": moment(at)}


def after(*parents: str, **options: Any) -> Schedule:
    """After jobs of these manifests have completed. `options`: `need` (`all` or `any`), `dormant`."""
    return {"after": list(parents), **options}


def on_demand() -> Schedule:
    """Only when it is run by request."""
    return {"on_demand": True}
