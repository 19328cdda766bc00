"""Lineclear for Python: enqueue jobs, wait for them, and run them.

Only the standard library is needed. `README.md` has a worker that fits on one screen.
"""

from lineclear import schedule
from lineclear.async_client import AsyncClient
from lineclear.client import Client
from lineclear.errors import (
    ApiError,
    JobCancelled,
    JobError,
    JobFailed,
    LineclearError,
    NotFound,
    Permanent,
    RetryIn,
    Snooze,
    Stopped,
    Unavailable,
    WaitTimeout,
)
from lineclear.requests import NewJob
from lineclear.version import __version__
from lineclear.views import Enqueued, Execution, JobView, ManifestView
from lineclear.worker import Job, Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "Enqueued",
    "Execution",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobView",
    "LineclearError",
    "ManifestView",
    "NewJob",
    "NotFound",
    "Permanent",
    "RetryIn",
    "Snooze",
    "Stopped",
    "Unavailable",
    "WaitTimeout",
    "Worker",
    "__version__",
    "schedule",
]
