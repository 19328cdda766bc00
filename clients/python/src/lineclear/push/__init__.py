"""Push: a server sends jobs to an endpoint of yours, which answers with their outcomes.

    from lineclear import Worker, push

    worker = Worker()

    @worker.kind("invoice")
    def invoice(order: int) -> dict[str, int]:
        return {"order": order}

    app = push.handler(worker, ["whsec_…"]).asgi
"""

from lineclear.push.answers import Answer
from lineclear.push.handler import PushHandler, handler

__all__ = ["Answer", "PushHandler", "handler"]
