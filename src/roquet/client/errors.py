"""Errors of clients.

RoquetError
└── ClientError
    ├── BadArgument          also a ValueError: an argument is invalid; nothing was sent
    │   └── BadAddress       an address is not "host:port"
    ├── NotOpen              the client is not open yet, or closed
    ├── UsedAfterFork        a forked process needs a client of its own
    ├── WrongLoop            so does another event loop
    ├── NothingToRead        a consumer has no topic or queue, or cannot read it
    ├── NoNameServer         none of the name servers answered
    ├── NoBroker             no master is registered at the name servers
    ├── TopicNotFound        no broker takes messages of this topic
    ├── GroupNotFound        no broker knows this group
    ├── RequestRefused       a broker or name server refused the request, and why
    ├── Unreachable          also a ConnectionError: a broker did not respond
    ├── OffsetsGone          a queue does not have the requested offsets
    ├── NotConnected         no broker knows the requested client
    ├── MembersConnected     a group cannot be reset while its members are connected
    ├── NotTheLongestLog     another slave may have more than the one to be promoted
    ├── MessageNotFound      no broker has a message with this id
    ├── NoTimers             a broker would deliver a delayed message at once
    ├── NoReply              also a TimeoutError: a request was sent, but no reply came in time
    └── SendError            a message was not acknowledged
        ├── SendFailed       it is not stored: sending it again is safe
        │   ├── SendRefused  a broker refused it, with a code
        │   ├── SendImpossible  no broker accepts it until something is changed
        │   └── SendForbidden  a hook of the program forbade it
        ├── SendUnknown      it may be stored: sending it again may store it twice
        │   └── NotYetSafe   it is stored, but disk or replica did not confirm it in time
        └── SomeFailed       of many messages; has the outcome of each

All of them can be copied and cross processes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from roquet.client.denials import denial_in
from roquet.errors import RoquetError
from roquet.net.errors import BadAddress as NetBadAddress
from roquet.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from roquet.client.producer.receipt import SendReceipt
    from roquet.client.queue_ref import QueueRef


# Codes of conditions that may pass.
_PASSING: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
    }
)
# The same without the code that brokers of Apache also send to clients without permission.
_BUSY: Final = _PASSING - {ResponseCode.SYSTEM_ERROR}


class ClientError(RoquetError):
    """A client could not do what its caller asked for."""


class BadArgument(ClientError, ValueError):
    """An argument is invalid. The text names the argument and what it may be.

    `argument` is its name; None if the call does not fit the state of the client.
    """

    def __init__(self, reason: str, argument: str | None = None) -> None:
        super().__init__(reason)
        self.argument = argument


class BadAddress(BadArgument, NetBadAddress):
    """The address of a server has to have the form "host:port"."""

    def __init__(self, text: str, hint: str = "") -> None:
        NetBadAddress.__init__(self, text, hint)
        self.argument = "name_server"


class NotOpen(ClientError):
    """A client was used before it was opened, or after it was closed."""

    def __init__(self, what: str, *, was_open: bool) -> None:
        state = (
            "is closed; make a new one" if was_open else 'is not open: use "with" or call open()'
        )
        super().__init__(f"the {what} {state}")
        self.what = what
        self.was_open = was_open


class UsedAfterFork(ClientError):
    """A forked process used the client of its parent: make one after the fork."""

    def __init__(self, what: str, owner_process: int, this_process: int) -> None:
        super().__init__(
            f"the {what} belongs to process {owner_process} and cannot be used in its fork "
            f"{this_process}: make one there"
        )
        self.owner_process = owner_process
        self.this_process = this_process


class WrongLoop(ClientError):
    """A client was used in another event loop than its own: make one in each."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the {what} belongs to the event loop it was opened in, and this is another one: make "
            "one in each loop"
        )
        self.what = what


class NothingToRead(ClientError):
    """A consumer has no topic or queue to read, or cannot read it. The text names the remedy."""


class NoNameServer(ClientError):
    """None of the name servers answered; `reasons` has the error of each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(
            f"no name server answered ({'; '.join(reasons)}): check `name_server` and the network"
        )
        self.reasons = tuple(reasons)


class NoBroker(ClientError):
    """The name servers answered, and no master is registered there: no request can be answered."""

    def __init__(self) -> None:
        super().__init__("no master is registered at the name servers; see `lost_brokers()`")


class TopicNotFound(ClientError):
    """No broker takes messages of the topic.

    Unless it `is_missing`, the topic exists, but no name server or broker can be reached now.
    """

    def __init__(self, topic: str, reason: str, *, is_missing: bool = True) -> None:
        super().__init__(f"topic {topic!r}: {reason}")
        self.topic = topic
        self.reason = reason
        self.is_missing = is_missing


class GroupNotFound(ClientError):
    """No broker knows the group."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"no broker knows a group {group!r}: it is misspelt, or no consumer of it was ever "
            "connected; see `groups()`"
        )
        self.group = group


class RequestRefused(ClientError):
    """A broker or name server refused the request.

    `code` is a `ResponseCode`, or a number that only the peer knows.
    """

    def __init__(self, address: str, code: int, remark: str | None) -> None:
        super().__init__(f"{address} answered {code}: {remark or 'no reason given'}")
        self.address = address
        self.code = code
        self.remark = remark

    @property
    def is_busy(self) -> bool:
        """Whether the same server may accept it a little later."""
        return self.code in _BUSY


class Unreachable(ClientError, ConnectionError):
    """A broker could not be reached, or did not respond."""

    def __init__(self, broker: str, reason: str) -> None:
        super().__init__(f"broker {broker} cannot be asked: {reason}")
        self.broker = broker
        self.reason = reason


class OffsetsGone(ClientError):
    """A queue does not have the offsets that were to be read.

    Both ranges include the first offset and exclude the second.
    """

    def __init__(
        self, queue: "QueueRef", wanted: tuple[int, int], available: tuple[int, int]
    ) -> None:
        super().__init__(queue, wanted, available)
        self.queue = queue
        self.wanted = wanted
        self.available = available

    def __str__(self) -> str:
        queue = self.queue
        return (
            f"queue {queue.queue_id} of {queue.topic!r} at {queue.broker_name} does not have "
            f"offsets {self.wanted[0]} to {self.wanted[1]}, but {self.available[0]} to "
            f"{self.available[1]}: they expired, or the topic was created again"
        )


class NotConnected(ClientError):
    """No broker knows the client."""

    def __init__(self, group: str, client_id: str) -> None:
        super().__init__(f"client {client_id!r} of group {group!r} is not connected to any broker")
        self.group = group
        self.client_id = client_id


class NotTheLongestLog(ClientError):
    """Promoted, the slave at `address` would lose what the slave at `other` has.

    `missing` is how many bytes those are, None if the other slave does not answer.
    """

    def __init__(self, address: str, other: str, missing: int | None) -> None:
        reason = (
            f"slave {other} does not answer, and may have more: wait for it"
            if missing is None
            else f"slave {other} has {missing:,} bytes more, or a later epoch: promote that one"
        )
        super().__init__(f"{address} may lack acknowledged messages: {reason}, or use force")
        self.address = address
        self.other = other
        self.missing = missing


class MembersConnected(ClientError):
    """The group of a 4.9 broker cannot be reset to an offset while members are connected."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group!r} is connected to a broker of 4.9, which can reset it to a time, "
            "not to an offset: stop its members first, or plan the reset with a time"
        )
        self.group = group


class MessageNotFound(ClientError):
    """No broker has a message of this id or key."""

    def __init__(self, topic: str, what: str) -> None:
        super().__init__(f"no message of topic {topic!r} has {what}")
        self.topic = topic


class NoTimers(ClientError):
    """The broker cannot delay a message by an arbitrary time: use `delay_level`."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} has no timers and would deliver it at once; use `delay_level`")
        self.address = address


class NoReply(ClientError, TimeoutError):
    """No reply came in time.

    A consumer may have received the request, or may receive it later. `receipt` is of the request.
    """

    def __init__(self, topic: str, timeout_s: float, receipt: "SendReceipt") -> None:
        super().__init__(
            f"no reply to the request to {topic!r} within {timeout_s:g} s: "
            "check that a consumer of this topic is running"
        )
        self.topic = topic
        self.timeout_s = timeout_s
        self.receipt = receipt
        self.message_id = receipt.message_id
        self.queue = receipt.queue


class SendError(ClientError):
    """A message was not acknowledged; the subclasses distinguish what is known of it."""


class SendFailed(SendError):
    """The message is not stored. It may be sent again, if `may_pass`."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason

    @property
    def may_pass(self) -> bool:
        """Whether the same message may be accepted if it is sent again."""
        return True

    def __str__(self) -> str:
        if self.may_pass:
            return f"message to {self.topic!r} is not stored and may be sent again: {self.reason}"
        return f"message to {self.topic!r} is not stored; sending again is no use: {self.reason}"


class SendRefused(SendFailed):
    """A broker refused the message, and it is not stored.

    `code` is a `ResponseCode`, or a number that only the broker knows.
    """

    def __init__(self, topic: str, reason: str, code: int) -> None:
        super().__init__(topic, reason)
        self.args = (topic, reason, code)
        self.code = code

    @property
    def may_pass(self) -> bool:
        return self.code in _PASSING and denial_in(self.reason) is None


class SendImpossible(SendFailed):
    """There is no such topic or queue, or no broker that can delay the message by its time."""

    @property
    def may_pass(self) -> bool:
        return False


class SendForbidden(SendFailed):
    """Raised by hooks: this message must not be sent."""

    @property
    def may_pass(self) -> bool:
        return False


class SendUnknown(SendError):
    """The message may or may not be stored; sending it again may store it twice.

    `message_id` is what it is stored with, if it is; `queues` are those it was sent to.
    `producer.is_stored(error)` looks for it.
    """

    def __init__(
        self,
        topic: str,
        reason: str,
        message_id: str | None = None,
        queues: "Sequence[QueueRef]" = (),
    ) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason
        self.message_id = message_id
        self.queues = tuple(queues)

    @property
    def queue(self) -> "QueueRef | None":
        """The queue it was last sent to."""
        return self.queues[-1] if self.queues else None

    def __str__(self) -> str:
        return (
            f"message to {self.topic!r} may or may not be stored, and sending it again may store "
            f"it twice: {self.reason}"
        )


class NotYetSafe(SendUnknown):
    """The message is stored, but not as safely as it should be.

    Consumers can read it, but a crash could still lose it. `receipts` has where it is stored.
    """

    def __init__(self, topic: str, reason: str, receipts: "Sequence[SendReceipt]") -> None:
        message_id = receipts[0].message_id if receipts else None
        super().__init__(topic, reason, message_id, [each.queue for each in receipts[:1]])
        self.args = (topic, reason, receipts)
        self.receipts = tuple(receipts)

    def __str__(self) -> str:
        first = self.receipts[0]
        place = f"offset {first.queue_offset} of queue {first.queue.queue_id}"
        return f"message to {self.topic!r} is stored at {place}, but not safe yet: {self.reason}"


class SomeFailed(SendError):
    """Of several messages, some were not sent.

    `outcomes` has the receipt or the error of each message, in the order of the messages.
    """

    def __init__(self, outcomes: "Sequence[SendReceipt | ClientError]") -> None:
        super().__init__(outcomes)
        self.outcomes = list(outcomes)

    @property
    def errors(self) -> list[ClientError]:
        return [each for each in self.outcomes if isinstance(each, ClientError)]

    def __str__(self) -> str:
        errors = self.errors
        return f"{len(errors)} of {len(self.outcomes)} messages were not sent; first: {errors[0]}"
