"""Handlers by kind."""

from __future__ import annotations

import inspect
from typing import Any, Callable, TypeVar

from lineclear.worker.job import Job

F = TypeVar("F", bound=Callable[..., Any])


class Handler:
    """A function that runs jobs of one kind."""

    __slots__ = ("function", "is_async", "call")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        made = function if inspect.isroutine(function) else getattr(function, "__call__", function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(made)
        self.call = _caller(function)


def _caller(function: Callable[..., Any]) -> Callable[[Job], Any]:
    """Calls the function with what its parameters ask for: the job, the input, both, or nothing."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    wanted = [p for p in parameters if p.default is inspect.Parameter.empty] or parameters[:2]
    if not wanted:
        return lambda job: function()
    if len(wanted) > 2:
        raise TypeError("a handler must have the parameters `(job, input)`, `(job)`, `(input)` or none")
    if len(wanted) == 2:
        return lambda job: function(job, job.input)
    asks_for_job = wanted[0].name == "job" or wanted[0].annotation in (Job, "Job", "lineclear.Job")
    return function if asks_for_job else lambda job: function(job.input)


class Handlers:
    """The handlers of a worker. `@handlers.kind("invoice")` registers one."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Handler] = {}

    def kind(self, name: str) -> Callable[[F], F]:
        """Registers a function, or a coroutine function, for a kind.

        It takes `(job, input)`, `(job)`, `(input)` or nothing, and returns the output: any JSON of up to 64 KiB.
        """

        def register(function: F) -> F:
            if name in self._by_kind:
                raise ValueError(f"the kind {name!r} has a handler already")
            self._by_kind[name] = Handler(function)
            return function

        return register

    def get(self, kind: str) -> Handler | None:
        """The handler of a kind."""
        return self._by_kind.get(kind)

    @property
    def kinds(self) -> list[str]:
        """The registered kinds."""
        return list(self._by_kind)
