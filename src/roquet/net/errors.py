"""Errors between two peers.

RoquetError
├── Refused                  a handler refuses: costs the request, the peer gets the code
│   ├── TableFull            a table that peers fill has reached its limit
│   └── TlsRequired          a request of administrators on a connection that is not encrypted
├── NoFreePort               no free port was found for a server that takes any
├── AddressTaken             also an OSError: another process listens there
├── UnknownHost              the host name of a server has no address
├── TlsNotUsable             certificate or key files cannot be used
├── BadProxyHeader           what a load balancer sends first cannot be read
├── TlsRefused               a peer fails the TLS handshake, or may not skip it
└── NetError                 a call got no response
    ├── BadAddress           the text is not "host:port": our caller's fault
    ├── ConnectFailed        no connection: nothing was sent
    ├── ConnectionLost       the outcome is unknown: it may have been carried out
    ├── CallTimedOut         the outcome is unknown: it may still be carried out
    └── TooManyInFlight      our own limit: nothing was sent
"""

import errno
from typing import Final

from roquet.errors import RoquetError
from roquet.protocol.codes import ResponseCode
from roquet.protocol.host import Address

# Part of the reason when a server closed an unencrypted connection without a word.
MAY_NEED_TLS: Final = "it may require TLS"


class Refused(RoquetError):
    """Raised by a handler; the router turns it into a reply with this code and remark."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(f"{code.name}: {remark}")
        self.code = code
        self.remark = remark


class NoFreePort(RoquetError):
    def __init__(self, host: str) -> None:
        super().__init__(f"no free port at {host}; give the server a port")
        self.host = host


class AddressTaken(RoquetError, OSError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"another process listens on {Address(host, port)}; use another port, or 0 for any",
        )
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return str(self.strerror)


class UnknownHost(RoquetError):
    def __init__(self, host: str) -> None:
        super().__init__(f"cannot resolve host {host[:255]!r}")
        self.host = host


class TableFull(Refused):
    """A table that peers fill has reached its limit, which `setting` raises."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_BUSY,
            f"the limit of {limit} {what} is reached: remove some, or have the operator raise"
            f" {setting}",
        )
        self.limit = limit
        self.setting = setting


class TlsRequired(Refused):
    """Administrators have to use encrypted connections."""

    def __init__(self, code: int) -> None:
        super().__init__(
            ResponseCode.NO_PERMISSION,
            f"request {code} of administrators needs an encrypted connection"
            " (aclAdminRequiresTls=true): connect with TLS",
        )


class TlsNotUsable(RoquetError):
    def __init__(self, files: str, reason: str) -> None:
        super().__init__(f"TLS cannot use {files}: {reason}")
        self.files = files
        self.reason = reason


class BadProxyHeader(RoquetError):
    """The header of the PROXY protocol, which a load balancer sends first, cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid header of the PROXY protocol: {reason}")
        self.reason = reason


class TlsRefused(RoquetError):
    """The handshake failed, or a plain peer met a server that requires TLS."""


class NetError(RoquetError):
    """A call to a peer got no response."""


class BadAddress(NetError):
    """An address has the form "host:port". `hint` is what else is wrong with it."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(f"{text[:100]!r} is not an address of the form host:port{hint}")
        self.text = text


class ConnectFailed(NetError):
    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address
        self.reason = reason


class ConnectionLost(NetError):
    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"connection to {address} is closed: {reason}")
        self.address = address
        self.reason = reason


class CallTimedOut(NetError):
    """`held_s` is how long this program kept its event loop busy meanwhile, if that was long."""

    def __init__(
        self, address: str, code: int, timeout_s: float, held_s: float | None = None
    ) -> None:
        text = f"{address} did not answer request {code} within {timeout_s:g} s"
        if held_s is not None:
            text += f", but this program was too busy: its event loop was held for {held_s:.1f} s"
        super().__init__(text)
        self.address = address
        self.code = code
        self.timeout_s = timeout_s
        self.held_s = held_s


class TooManyInFlight(NetError):
    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"{limit} calls to {address} are unanswered already")
        self.address = address
        self.limit = limit
