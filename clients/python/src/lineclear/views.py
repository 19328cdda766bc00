"""What the server answers, as values. Fields that this version does not know are in `raw`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Mapping

from lineclear.encoding import read_moment

#: States in which a job has ended.
ENDED = frozenset(("completed", "cancelled", "dead"))


@dataclass(frozen=True)
class Enqueued:
    """An enqueued job."""

    id: str
    #: `inserted`: it is new. `existing`: another job had the unique key. `replaced`: that job has the new input.
    placed: str

    @staticmethod
    def read(raw: Mapping[str, Any]) -> Enqueued:
        return Enqueued(raw["id"], raw["placed"])


@dataclass(frozen=True)
class Execution:
    """One claim of a job that ended."""

    claim_no: int
    is_final: bool
    outcome: str
    output: Any
    error_type: str | None
    error_message: str | None
    node_id: str | None
    claimed_at: datetime | None
    finished_at: datetime | None

    @staticmethod
    def read(raw: Mapping[str, Any]) -> Execution:
        return Execution(
            raw["claim_no"],
            raw["is_final"],
            raw["outcome"],
            raw.get("output"),
            raw.get("error_type"),
            raw.get("error_message"),
            raw.get("node_id"),
            read_moment(raw.get("claimed_at")),
            read_moment(raw.get("finished_at")),
        )


@dataclass(frozen=True)
class JobView:
    """A job with its history. The server masks secrets in inputs and outputs."""

    id: str
    state: str
    kind: str
    input: Any
    claim_no: int
    manifest: str | None
    group: str | None
    last_error: str | None
    created_at: datetime | None
    due_at: datetime | None
    finished_at: datetime | None
    executions: tuple[Execution, ...]
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def read(raw: Mapping[str, Any]) -> JobView:
        return JobView(
            raw["id"],
            raw["state"],
            raw["kind"],
            raw.get("input"),
            raw["claim_no"],
            raw.get("manifest"),
            raw.get("group"),
            raw.get("last_error"),
            read_moment(raw.get("created_at")),
            read_moment(raw.get("due_at")),
            read_moment(raw.get("finished_at")),
            tuple(Execution.read(one) for one in raw.get("executions", ())),
            raw,
        )

    @property
    def ended(self) -> bool:
        """Whether it is completed, cancelled or dead."""
        return self.state in ENDED

    @property
    def output(self) -> Any:
        """The output of the execution that completed it, or `None`."""
        return next((one.output for one in reversed(self.executions) if one.outcome == "completed"), None)


@dataclass(frozen=True)
class ManifestView:
    """A manifest and its state."""

    key: str
    #: The manifest in the form of a manifest file, or `None` if the stored one cannot be read.
    manifest: Mapping[str, Any] | None
    held: bool
    next_due_at: datetime | None
    last_success_at: datetime | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def read(raw: Mapping[str, Any]) -> ManifestView:
        due, success = read_moment(raw.get("next_due_at")), read_moment(raw.get("last_success_at"))
        return ManifestView(raw["key"], raw.get("manifest"), raw["held"], due, success, raw)
