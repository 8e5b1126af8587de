"""What can go wrong for a client.

RoquetError
└── ClientError
    ├── BadArgument          the caller asked for what cannot be; nothing was sent
    ├── NotOpen              not opened yet, or closed already
    ├── UsedAfterFork        a forked process needs a client of its own
    ├── WrongLoop            so does another event loop
    ├── NothingToRead        a consumer was not told what to read, or cannot get it
    ├── NoNameServer         none of the name servers answered
    ├── TopicNotFound        no broker takes messages of this topic
    ├── GroupNotFound        no broker has heard of this group
    ├── RequestRefused       a broker or name server said no, and why
    ├── Unreachable          a broker could not be asked, or did not answer
    ├── OffsetsGone          a queue does not have what was to be read of it
    ├── NotConnected         no broker knows the client that was asked for
    ├── MembersConnected     a group cannot be moved while its members are at work
    ├── MessageNotFound      no broker has a message with this id
    ├── NoTimers             a broker would deliver at once what has to wait
    ├── NoReply              a request was sent, but nobody replied in time
    └── SendError            a message was not acknowledged
        ├── SendFailed       it is not stored: sending it again is safe
        │   ├── SendRefused  because the broker said so, with a code
        │   ├── SendImpossible  because nobody takes it until something is changed
        │   └── SendForbidden  because a hook of the program said so
        ├── SendUnknown      it may be stored: sending it again may make a second one
        │   └── NotYetSafe   it is stored, but disk or replica did not confirm it in time
        └── SomeFailed       of many messages; says what became of each

The errors of a send keep their facts in `args`, so that they can be copied and cross processes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from roquet.errors import RoquetError
from roquet.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from roquet.client.producer.receipt import SendReceipt
    from roquet.client.queue_ref import QueueRef


# What a broker says that may say something else a moment later.
_PASSING: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
    }
)
# The same without what brokers of Apache also say to those who may not ask.
_BUSY: Final = _PASSING - {ResponseCode.SYSTEM_ERROR}


class ClientError(RoquetError):
    """A client could not do what it was asked to."""


class BadArgument(ClientError):
    """The caller asked for what cannot be. The text says which argument, and what it may be."""


class NotOpen(ClientError):
    """A client was used before it was opened, or after it was closed."""

    def __init__(self, what: str, *, was_open: bool) -> None:
        state = (
            "is closed; make a new one" if was_open else 'is not open: use "with" or call open()'
        )
        super().__init__(f"the {what} {state}")


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


class NothingToRead(ClientError):
    """A consumer was not told what to read, or cannot get it. The text says what to do."""


class NoNameServer(ClientError):
    """None of the name servers answered; `reasons` has what became of each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(
            f"no name server answered ({'; '.join(reasons)}): check `name_server` and the network"
        )
        self.reasons = tuple(reasons)


class TopicNotFound(ClientError):
    """No broker takes messages of the topic.

    Unless it `is_missing`, the topic is there, but nobody can be asked for it now.
    """

    def __init__(self, topic: str, reason: str, *, is_missing: bool = True) -> None:
        super().__init__(f"topic {topic!r}: {reason}")
        self.topic = topic
        self.reason = reason
        self.is_missing = is_missing


class GroupNotFound(ClientError):
    """No broker has heard of the group."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"no broker knows a group {group!r}: it is misspelt, or no consumer of it was ever "
            "connected; see `groups()`"
        )
        self.group = group


class RequestRefused(ClientError):
    """A broker or name server said no.

    `code` is a `ResponseCode`, or a number that only the peer knows.
    """

    def __init__(self, address: str, code: int, remark: str | None) -> None:
        super().__init__(f"{address} answered {code}: {remark or 'no reason given'}")
        self.address = address
        self.code = code
        self.remark = remark

    @property
    def is_busy(self) -> bool:
        """Whether the same server may well answer a little later."""
        return self.code in _BUSY


class Unreachable(ClientError):
    """A broker could not be asked, or did not answer."""

    def __init__(self, broker: str, reason: str) -> None:
        super().__init__(f"broker {broker} cannot be asked: {reason}")
        self.broker = broker
        self.reason = reason


class OffsetsGone(ClientError):
    """A queue does not have what was to be read of it.

    Both ranges are of offsets: from the first on, but before the second.
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
            f"{self.available[1]}: they expired, or the topic was made anew; read what is there"
        )


class NotConnected(ClientError):
    """No broker knows the client that was asked for."""

    def __init__(self, group: str, client_id: str) -> None:
        super().__init__(f"client {client_id!r} of group {group!r} is not connected to any broker")
        self.group = group
        self.client_id = client_id


class MembersConnected(ClientError):
    """The group of a 4.9 broker cannot be moved to an offset while it is connected."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group!r} is connected to a broker of 4.9, which can move it to a time but not "
            "to an offset: stop its members first, or plan the reset with a time"
        )
        self.group = group


class MessageNotFound(ClientError):
    """No broker has a message of this id or key."""

    def __init__(self, topic: str, what: str) -> None:
        super().__init__(f"no message of topic {topic!r} has {what}")
        self.topic = topic


class NoTimers(ClientError):
    """The broker cannot keep a message for an arbitrary time: use `delay_level`."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} has no timers and would deliver it at once; use `delay_level`")
        self.address = address


class NoReply(ClientError):
    """No reply came in time.

    Somebody may have got the request, or may get it later. `receipt` says where it is.
    """

    def __init__(self, topic: str, timeout_s: float, receipt: "SendReceipt") -> None:
        super().__init__(
            f"nobody replied to the request to {topic!r} within {timeout_s:g} s: "
            "see whether somebody consumes this topic"
        )
        self.topic = topic
        self.timeout_s = timeout_s
        self.receipt = receipt


class SendError(ClientError):
    """A message was not acknowledged; the subclass says what is known of it."""


class SendFailed(SendError):
    """The message is not stored. It may be sent again, if `may_pass`."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason

    @property
    def may_pass(self) -> bool:
        """Whether the same message may be taken if it is sent again."""
        return True

    def __str__(self) -> str:
        if self.may_pass:
            return f"message to {self.topic!r} is not stored and may be sent again: {self.reason}"
        return f"message to {self.topic!r} is not stored; sending again is no use: {self.reason}"


class SendRefused(SendFailed):
    """A broker said no, and the message is not stored.

    `code` is a `ResponseCode`, or a number that only the broker knows.
    """

    def __init__(self, topic: str, reason: str, code: int) -> None:
        super().__init__(topic, reason)
        self.args = (topic, reason, code)
        self.code = code

    @property
    def may_pass(self) -> bool:
        return self.code in _PASSING


class SendImpossible(SendFailed):
    """There is no such topic or queue, or no broker that can keep the message back for its time."""

    @property
    def may_pass(self) -> bool:
        return False


class SendForbidden(SendFailed):
    """For hooks to raise: this message must not be sent."""

    @property
    def may_pass(self) -> bool:
        return False


class SendUnknown(SendError):
    """The message may or may not be stored; sending it again may make a second one."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"message to {self.topic!r} may or may not be stored, and sending it again may make "
            f"a second one: {self.reason}"
        )


class NotYetSafe(SendUnknown):
    """The message is stored, but not as safely as it should be.

    Consumers can read it, but a crash could still lose it. `receipts` say where it is.
    """

    def __init__(self, topic: str, reason: str, receipts: "Sequence[SendReceipt]") -> None:
        super().__init__(topic, reason)
        self.args = (topic, reason, receipts)
        self.receipts = tuple(receipts)

    def __str__(self) -> str:
        first = self.receipts[0]
        place = f"offset {first.queue_offset} of queue {first.queue.queue_id}"
        return f"message to {self.topic!r} is stored at {place}, but not safe yet: {self.reason}"


class SomeFailed(SendError):
    """Of several messages, some were not sent.

    `outcomes` has the receipt or the error of each message, in the order they were given.
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
