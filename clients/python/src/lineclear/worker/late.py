"""Answers with jobs that were read late: their leases may have ended, and are renewed before a handler begins."""

from __future__ import annotations

import time
from typing import Any, Mapping, NamedTuple, Sequence

from lineclear.worker.api import ClaimsApi
from lineclear.worker.claims import trusted_until


class Renewed(NamedTuple):
    """Claims that are still ours."""

    claims: list[dict[str, Any]]
    #: Those of jobs that are to be cancelled.
    cancelled: set[tuple[str, int]]
    #: When the renewal was sent.
    at: float
    #: False: the server could not look at some of them, which are not in `claims`.
    is_complete: bool


def key_of(raw: Mapping[str, Any]) -> tuple[str, int]:
    """The key of a claim in an answer."""
    return raw["job"]["id"], raw["claim"]["no"]


def is_late(asked_at: float, lease: float) -> bool:
    """Whether less than half of a lease is left that a request of this moment was answered with."""
    return trusted_until(asked_at, lease) - time.monotonic() <= lease / 2


def renew(api: ClaimsApi, found: Sequence[dict[str, Any]], lease: float) -> Renewed:
    """Renews claims that did not begin yet. Raises `NoAnswer` and `ApiError`."""
    sent_at = time.monotonic()
    answer = api.renew([key_of(raw) for raw in found], timeout=min(max(lease / 3, 0.5), 10.0))
    answers = {(item["job"], item["no"]): item for item in answer["claims"]}
    statuses = {key_of(raw): answers.get(key_of(raw), {}).get("status") for raw in found}
    return Renewed(
        [raw for raw in found if statuses[key_of(raw)] == "renewed"],
        {key for key, item in answers.items() if item.get("cancel")},
        sent_at,
        all(status in ("renewed", "stale_claim") for status in statuses.values()),
    )
