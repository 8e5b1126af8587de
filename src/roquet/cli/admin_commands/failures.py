"""Errors of admin commands: one line with the remedy, and the exit code.

0  done
1  refused by a server, or found something wrong, or not confirmed
2  misused: the arguments or the config file are invalid
3  a server cannot be reached, or none is registered
4  no such topic, group, message or broker
"""

from typing import Final, NamedTuple

from roquet.cli.admin_commands.access import Access, BadConfigFile
from roquet.client.admin.remedies import denial_remedy, tls_remedy
from roquet.client.errors import (
    BadArgument,
    GroupNotFound,
    MembersConnected,
    MessageNotFound,
    NoBroker,
    NoNameServer,
    NotConnected,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.errors import RoquetError
from roquet.net.errors import BadAddress

DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
UNREACHABLE: Final = 3
NOT_FOUND: Final = 4

NO_BROKER: Final = (
    "no master is registered at the name servers: start one with roquet broker -n ADDRESS; those"
    " that were lost: roquet cluster"
)


class Failure(NamedTuple):
    text: str
    exit_code: int


class Failed(RoquetError):
    """A command ends with this line."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def failure_of(error: RoquetError, access: Access | None) -> Failure:
    """`access` is None if the connection options could not be read."""
    match error:
        case Failed():
            return Failure(str(error), error.exit_code)
        case NoNameServer():
            return Failure(_no_name_server(error, access), UNREACHABLE)
        case NoBroker():
            return Failure(NO_BROKER, UNREACHABLE)
        case Unreachable():
            remedy = (
                tls_remedy(error.reason)
                or "check that it runs and that its advertised address is reachable from here:"
                " roquet doctor"
            )
            text = f"broker {error.broker} is unreachable: {error.reason}; {remedy}"
            return Failure(text, UNREACHABLE)
        case TopicNotFound():
            text = f"topic {error.topic!r}: {error.reason}; see: roquet topic list"
            return Failure(text, NOT_FOUND)
        case GroupNotFound():
            text = (
                f"group {error.group!r} does not exist: it is misspelled, or no consumer of it has"
                " ever connected; see: roquet group list"
            )
            return Failure(text, NOT_FOUND)
        case NotConnected():
            text = f"{error}; see: roquet group members {error.group}"
            return Failure(text, NOT_FOUND)
        case MessageNotFound():
            text = f"{error}: it belongs to another topic, was never sent, or has expired"
            return Failure(text, NOT_FOUND)
        case MembersConnected():
            text = (
                f"group {error.group!r} is connected to a broker of 4.9, which can reset it to a"
                " time but not to an offset: stop its members first, or use --to-time"
            )
            return Failure(text, FAILED)
        case RequestRefused():
            return Failure(_refused(error), FAILED)
        case BadArgument() | BadConfigFile() | BadAddress():
            return Failure(str(error), MISUSED)
        case _:
            more = tls_remedy(str(error)) or denial_remedy(str(error))
            return Failure(f"{error}; {more}" if more else str(error), FAILED)


def _no_name_server(error: NoNameServer, access: Access | None) -> str:
    if access is None:
        return f"no name server answered ({'; '.join(error.reasons)})"
    return no_name_server_text(error, access.name_server, access.name_server_from)


def no_name_server_text(error: NoNameServer, name_server: str, origin: str) -> str:
    """`origin` is where the address was set: what to change if it is wrong."""
    reasons = "; ".join(error.reasons)
    remedy = tls_remedy(reasons) or "start one with roquet up, or set the address with -n HOST:PORT"
    return f"no name server answered at {name_server} ({origin}): {reasons}; {remedy}"


def _refused(error: RequestRefused) -> str:
    text = f"{error.address} refused ({error.code}): {error.remark or 'no reason given'}"
    remedy = denial_remedy(text)
    return text if remedy is None else f"{text}; {remedy}"
