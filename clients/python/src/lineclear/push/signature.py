"""Signatures of push requests: Standard Webhooks, version 1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Mapping, Sequence

#: A request that was signed longer ago, or further ahead, is refused: it may be a replay.
WINDOW_SECONDS = 300

SECRET_BYTES_MIN = 24


class BadSignature(Exception):
    """The request was not signed with one of the secrets, or not within the window."""


def key(secret: str) -> bytes:
    """Reads a secret: `whsec_` and base64."""
    try:
        found = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error as error:
        raise ValueError("a secret must be `whsec_` and base64") from error
    if len(found) < SECRET_BYTES_MIN:
        raise ValueError(f"a secret must have at least {SECRET_BYTES_MIN} bytes")
    return found


def sign(secret_key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """The signature of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret_key, signed, hashlib.sha256).digest()).decode()


def verify(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: float | None = None) -> str:
    """Checks a request, whose headers have names in lower case, and returns its id."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not message_id or not (timestamp.isascii() and timestamp.isdecimal()):
        raise BadSignature("the headers webhook-id and webhook-timestamp are missing")
    now = time.time() if now is None else now
    if len(timestamp) > 15 or abs(now - int(timestamp)) > WINDOW_SECONDS:
        raise BadSignature("the timestamp is more than five minutes off: a replay, or a wrong clock")
    found = headers.get("webhook-signature", "").split(" ")
    right = [sign(one, message_id, timestamp, body).encode() for one in keys]
    # All of them are compared, so that the time taken does not tell which secret nearly matched.
    matches = [hmac.compare_digest(mine, theirs.encode()) for mine in right for theirs in found]
    if not any(matches):
        raise BadSignature("no signature matches one of the secrets")
    return message_id
