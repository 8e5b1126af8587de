"""Hooks: called around each send and its attempts, each end of a transaction, each consumption.

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
    """Numbers as in trace records."""

    NORMAL = 0
    HALF = 1  # of a transaction that is not over
    COMMIT = 2
    DELAYED = 3


class TransactionState(Enum):
    """How a transaction ended, as far as its producer knows; values as on the wire."""

    COMMIT = 8
    ROLLBACK = 12
    UNKNOWN = 0


class ConsumeOutcome(IntEnum):
    """The outcome of calling a listener; numbers as in trace records."""

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
    body_size: int  # as it is sent, maybe compressed
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
    # Known when it is over: receipts or an error. A one-way send has neither.
    duration_s: float = 0.0
    receipts: Sequence[SendReceipt] = ()
    error: RoquetError | None = None


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """How a transaction ended, as reported to its broker."""

    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: Sequence[str]
    state: TransactionState
    broker_address: str
    end: datetime
    # The broker had checked.
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
    """Called by a producer.

    For example:

        class Stopwatch(SendHook):
            def after_send(self, sending):
                print(sending.topic, sending.duration_s, sending.error)

        with Producer("127.0.0.1:9876", "shop", hooks=[Stopwatch()]) as producer:
            producer.send(Message("orders", b"one coffee"))
    """

    def added_properties(self, message: Message) -> Mapping[str, str]:  # noqa: ARG002
        """Properties to add to a message. Called once for each message, in the task that sends it,
        before everything else.
        """
        return {}

    def before_send(self, sending: Sending) -> None:
        """Raises SendForbidden to keep it from being sent."""

    def after_send(self, sending: Sending) -> None:
        """Called once for each send that was not forbidden, however it ended."""

    def before_attempt(self, attempt: Attempt) -> None:
        """Called before each request of a send. Raises SendForbidden to end the send here."""

    def after_attempt(self, attempt: Attempt) -> None:
        """Called when the request is answered, failed or cancelled."""

    def after_transaction(self, end: TransactionEnd) -> None:
        """Called when the end of a transaction was reported to its broker."""


class ConsumeHook:
    """Called by a push consumer.

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
        """Called with the outcome."""
