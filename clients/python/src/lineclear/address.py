"""The address of a server."""

from __future__ import annotations

import ipaddress
import platform
from dataclasses import dataclass
from urllib.parse import urlsplit

from lineclear.version import __version__

USER_AGENT = f"lineclear-python/{__version__} Python/{platform.python_version()}"


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    tls: bool
    host: str
    port: int
    #: The path under which a proxy serves it, without a slash at the end.
    base_path: str
    user_agent: str = USER_AGENT

    @property
    def authority(self) -> str:
        """The value of the header `host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def is_this_machine(self) -> bool:
        """Whether what is sent there stays on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse(url: str, token: str | None, insecure_http: bool) -> Address:
    """Reads the URL of a server. A token goes over plain HTTP only to this machine, unless the caller insists."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("`url` must be http://host:port or https://host")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("`url` must have no query, fragment or user; pass the token as `token`")
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    address = Address(tls, parts.hostname, port, parts.path.rstrip("/"))
    if token is not None and not tls and not insecure_http and not address.is_this_machine:
        raise ValueError("`url` must be https://… because anyone on the way could read the token; "
                         "`insecure_http=True` sends it nevertheless")
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise ValueError("`token` must be the text that the server printed, without white space")
    return address
