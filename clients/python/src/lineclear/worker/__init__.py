"""Workers: they pull jobs from a server and run handlers."""

from lineclear.worker.handlers import Handlers
from lineclear.worker.job import Job
from lineclear.worker.worker import Worker

__all__ = ["Handlers", "Job", "Worker"]
