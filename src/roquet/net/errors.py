"""What can go wrong between two peers.

RoquetError
├── Refused                  a handler says no: costs the request, the peer learns the code
│   ├── TableFull            a table that peers fill has as much as it may
│   └── TlsRequired          a request of administrators on a connection that is not encrypted
├── NoFreePort               any port would do, and none was found
├── AddressTaken             an OSError, too: somebody else listens there
├── UnknownHost              a server is to be at a host that has no address
├── BadTlsSetting            a setting of encrypted connections that means nothing
├── TlsNotUsable             files with certificates or keys that cannot be used
├── TlsRefused               a peer that may not speak as it does, or cannot
└── NetError                 a call of ours got no answer
    ├── BadAddress           the text is not "host:port": our caller's fault
    ├── ConnectFailed        nobody answered there: nothing was sent
    ├── ConnectionLost       the outcome is unknown: it may have been carried out
    ├── CallTimedOut         the outcome is unknown: it may still be carried out
    └── TooManyInFlight      our own limit: nothing was sent
"""

import errno

from roquet.errors import RoquetError
from roquet.protocol.codes import ResponseCode
from roquet.protocol.host import Address


class Refused(RoquetError):
    """Raised by a handler; the router turns it into a reply with this code and remark."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(f"{code.name}: {remark}")
        self.code = code
        self.remark = remark


class NoFreePort(RoquetError):
    def __init__(self, host: str) -> None:
        super().__init__(f"no port at {host} is free; name one that the server may use")
        self.host = host


class AddressTaken(RoquetError, OSError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"another process listens on {Address(host, port)}; name another port, 0 takes any",
        )
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return str(self.strerror)


class UnknownHost(RoquetError):
    def __init__(self, host: str) -> None:
        super().__init__(f"no address is known for host {host[:255]!r}")
        self.host = host


class TableFull(Refused):
    """A table that peers fill has as much as it may; `setting` is what says so."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_BUSY,
            f"there may be {limit} {what}, and there are: remove some, or have the operator raise"
            f" {setting}",
        )
        self.limit = limit
        self.setting = setting


class TlsRequired(Refused):
    """What administrators do is not taken from a connection that others can listen to."""

    def __init__(self, code: int) -> None:
        super().__init__(
            ResponseCode.NO_PERMISSION,
            f"request {code} is for administrators, and is answered on encrypted connections only"
            " (aclAdminRequiresTls=true): connect with TLS",
        )


class BadTlsSetting(RoquetError):
    def __init__(self, key: str, text: str, reason: str) -> None:
        super().__init__(f"{key}={text[:150]!r}: {reason}")
        self.key = key
        self.text = text
        self.reason = reason


class TlsNotUsable(RoquetError):
    def __init__(self, files: str, reason: str) -> None:
        super().__init__(f"no encrypted connections with {files}: {reason}")
        self.files = files
        self.reason = reason


class TlsRefused(RoquetError):
    """One of two sides encrypts, or shows a certificate, in a way that the other does not take."""


class NetError(RoquetError):
    """A call to a peer got no answer."""


class BadAddress(NetError):
    """A server is to be named as "host:port"."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:100]!r} is not an address of the form host:port")
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
    def __init__(self, address: str, code: int, timeout_s: float) -> None:
        super().__init__(f"{address} did not answer request {code} within {timeout_s:g} s")
        self.address = address
        self.code = code
        self.timeout_s = timeout_s


class TooManyInFlight(NetError):
    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"{limit} calls to {address} are unanswered already")
        self.address = address
        self.limit = limit
