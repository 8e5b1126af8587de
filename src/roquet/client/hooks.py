"""What programs can watch: each send and its attempts, each end of a transaction, each consumption.

A hook is an object with the methods it needs; the others do nothing. Hooks run in the event loop,
so they must not block; only `around_listener` runs where the listener does. Their errors are logged
and change nothing, with one exception: `before_send` and `before_attempt` may raise SendForbidden,
and the message is not sent.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum

from roquet.client.errors import ClientError
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.errors import RoquetError
from roquet.protocol.messages.message import Message


class MessageKind(IntEnum):
    """Numbers as trace records have them."""

    NORMAL = 0
    HALF = 1  # of a transaction that is not over
    COMMIT = 2
    DELAYED = 3


class TransactionState(Enum):
    """How a transaction ended, as far as its producer knows; values are the wire's."""

    COMMIT = 8
    ROLLBACK = 12
    UNKNOWN = 0


class ConsumeOutcome(IntEnum):
    """What came of calling a listener; numbers as trace records have them."""

    SUCCESS = 0
    TIMED_OUT = 1
    RAISED = 2
    RETURNED_NOTHING = 3
    FAILED = 4


@dataclass(slots=True)
class Sending:
    """One send: of a message, or of those that share a request. Retries belong to it."""

    group: str
    topic: str
    messages: Sequence[Message]
    message_ids: Sequence[str]
    kind: MessageKind
    begin: datetime
    body_size: int  # as it travels, maybe compressed
    # Known when it is over: receipts or an error.
    duration_s: float = 0.0
    receipts: Sequence[SendReceipt] = ()
    error: ClientError | None = None
    broker_address: str | None = None


class SendMode(Enum):
    """Whether a send waits for the answer of a broker."""

    ANSWERED = "answered"
    ONEWAY = "oneway"


@dataclass(slots=True)
class Attempt:
    """One request of a send: to one queue of one broker."""

    sending: Sending
    number: int  # from 1
    queue: QueueRef  # with the topic as the program knows it
    broker_address: str
    mode: SendMode
    namespace: str | None
    # Known when it is over: receipts, or what became of it. One-way it has neither.
    duration_s: float = 0.0
    receipts: Sequence[SendReceipt] = ()
    error: RoquetError | None = None


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """What a broker was told of a transaction."""

    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: Sequence[str]
    state: TransactionState
    broker_address: str
    end: datetime
    # The broker had asked.
    is_answer: bool


@dataclass(slots=True)
class Consuming:
    """One call of a listener."""

    group: str
    queue: QueueRef
    messages: Sequence[ReceivedMessage]
    begin: datetime
    # For hooks: the same before and after.
    request_id: str = ""
    # Known when it is over.
    duration_s: float = 0.0
    outcome: ConsumeOutcome = ConsumeOutcome.SUCCESS
    error: BaseException | None = None


class SendHook:
    """Watches a producer.

    For example:

        class Stopwatch(SendHook):
            def after_send(self, sending):
                print(sending.topic, sending.duration_s, sending.error)

        with Producer("127.0.0.1:9876", "shop", hooks=[Stopwatch()]) as producer:
            producer.send(Message("orders", b"one coffee"))
    """

    def added_properties(self, message: Message) -> Mapping[str, str]:  # noqa: ARG002
        """What a message carries besides its own properties. Asked once for each message, by
        whoever sends it, and before everything else; it is sent with them.
        """
        return {}

    def before_send(self, sending: Sending) -> None:
        """Raises SendForbidden to keep it from being sent."""

    def after_send(self, sending: Sending) -> None:
        """Called once for each send that was not forbidden, however it ended."""

    def before_attempt(self, attempt: Attempt) -> None:
        """Called before each request of a send. Raises SendForbidden to end the send here."""

    def after_attempt(self, attempt: Attempt) -> None:
        """Called when the request is answered, has failed or was given up."""

    def after_transaction(self, end: TransactionEnd) -> None:
        """Called when a broker was told how a transaction ended."""


class ConsumeHook:
    """Watches a push consumer.

    For example:

        class Stopwatch(ConsumeHook):
            def after_consume(self, consuming):
                print(consuming.group, consuming.duration_s, consuming.outcome)

        PushConsumer("127.0.0.1:9876", "billing", print, hooks=[Stopwatch()])
    """

    def before_consume(self, consuming: Consuming) -> None:
        """Called before the listener."""

    def around_listener(self, consuming: Consuming) -> AbstractContextManager[object]:  # noqa: ARG002
        """Entered and left by the task or thread that calls the listener, around that call.

        What the listener raises goes through it. A program that reads with `async for` has no such
        call.
        """
        return nullcontext()

    def after_consume(self, consuming: Consuming) -> None:
        """Called with what came of it."""
