"""The first attempt of a blocking send, made in the thread that waits for it.

A thread that sends one message after the other would wait longer for the event loop's thread, which
has to be woken and to wake it, than for the broker. So its first attempts have a socket of their
own. Nothing else has: the attempt is that of `fast_send.py`, with the same frame, and whatever it
ends in but "stored" is judged, and tried again, in the loop by `sender.py`. One thread at a time
sends like this: many at once are better served by the loop, which writes their requests together.
"""

import logging
import threading
import time
from collections.abc import Coroutine
from typing import Any, Final, final

import msgspec

from roquet.client.blocking.loop_thread import LoopThread
from roquet.client.errors import NotOpen, SendUnknown
from roquet.client.producer.accumulator import Accumulator
from roquet.client.producer.fast_send import SEND, QueuePath, ThreadSends, first_receipt, made_ready
from roquet.client.producer.outgoing import Ready
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.net.blocking_connection import BlockingConnection
from roquet.net.errors import ConnectFailed, NetError
from roquet.protocol.command import Command
from roquet.protocol.messages.message import Message

log = logging.getLogger(__name__)

# The loop is connected to the same place already, so more means that something is wrong.
_CONNECT_TIMEOUT_S: Final = 1.0
# An address that cannot be connected to is left to the loop for so long.
_LEFT_TO_LOOP_S: Final = 30.0
_CLOSING_TIMEOUT_S: Final = 3.0


class _Attempt(msgspec.Struct):
    """That has ended, in a reply or in an error."""

    queue: QueueRef
    address: str
    outcome: Command | NetError

    def reply(self) -> Command:
        if isinstance(self.outcome, NetError):
            raise self.outcome
        return self.outcome


@final
class DirectSends:
    """Of one blocking producer, for any thread. `thread` runs the loop of the accumulator."""

    def __init__(self, accumulator: Accumulator, thread: LoopThread) -> None:
        self._accumulator = accumulator
        self._thread = thread
        # Held for a whole send. Everything below is used with it, but the counts are read without.
        self._lock = threading.Lock()
        self._way: _Way | None = None
        self._is_over = False
        self.stored_count = 0
        self.stored_size = 0

    @property
    def in_flight_count(self) -> int:
        return int(self._lock.locked())

    def send(self, message: Message, timeout_s: float) -> SendReceipt | None:
        """None if it is left to the loop: then nothing was done. Raises as `AsyncProducer.send`."""
        if type(message) is not Message or not self._lock.acquire(blocking=False):
            return None
        try:
            if self._is_over or (way := self._opened()) is None:
                return None
            begin_s = time.monotonic()
            ready = way.ready(message)
            attempt = way.attempt(ready, timeout_s)
            if attempt is None:
                return None
            receipt = _receipt(ready, attempt)
            if receipt is None:
                return self._sent_on(ready, attempt, timeout_s - (time.monotonic() - begin_s))
            self.stored_count += 1
            self.stored_size += len(message.body)
            return receipt
        finally:
            self._lock.release()

    def close(self) -> None:
        """Waits a little for a send that is on its way."""
        has_lock = self._lock.acquire(timeout=_CLOSING_TIMEOUT_S)
        self._is_over = True
        if self._way is not None:
            self._way.close()
        if has_lock:
            self._lock.release()

    def _opened(self) -> "_Way | None":
        if self._way is None:
            sends = self._accumulator.thread_sends()
            if sends is None:
                self._is_over = True
                return None
            self._way = _Way(self._accumulator, sends)
        return self._way

    def _sent_on(self, ready: Ready, attempt: _Attempt, timeout_s: float) -> SendReceipt:
        sending: Coroutine[Any, Any, SendReceipt] = self._accumulator.send_on(
            ready, attempt, timeout_s
        )
        try:
            return self._thread.run(sending)
        except NotOpen:
            raise SendUnknown(
                ready.message.topic, "its producer was closed", ready.message_id, (attempt.queue,)
            ) from None


@final
class _Way:
    """From a message to the end of its first attempt. Used by one thread at a time."""

    def __init__(self, accumulator: Accumulator, sends: ThreadSends) -> None:
        self._config = accumulator.config
        self._clock = accumulator.clock
        self._sends, self._messages, self._unique_ids, self._peers = sends
        self._connections: dict[str, BlockingConnection] = {}
        self._left_until_s: dict[str, float] = {}

    def ready(self, message: Message) -> Ready:
        """Raises BadArgument."""
        return made_ready(message, self._messages, self._unique_ids, self._config, self._clock)

    def attempt(self, ready: Ready, timeout_s: float) -> _Attempt | None:
        """None if it cannot be made here; then nothing was sent."""
        path = self._sends.next_path(ready)
        if path is None:
            return None
        begin_s = time.monotonic()
        connection = self._connection(path, timeout_s)
        if connection is None:
            self._sends.put_back(path)
            return None
        left_s = self._sends.attempt_timeout_s(timeout_s - (time.monotonic() - begin_s))
        frame_of = self._sends.frame_of(path, ready)
        try:
            outcome: Command | NetError = connection.call_by(SEND, frame_of, left_s)
        except NetError as error:
            outcome = error
            del self._connections[path.address]
        except BaseException:
            del self._connections[path.address]
            raise
        return _Attempt(path.queue, path.address, outcome)

    def close(self) -> None:
        """By any thread: an attempt that waits fails."""
        for connection in tuple(self._connections.values()):
            connection.shut_down()
            connection.close()

    def _connection(self, path: QueuePath, timeout_s: float) -> BlockingConnection | None:
        address = path.address
        connection = self._connections.get(address)
        if connection is not None:
            if connection.is_silent:
                return connection
            # Brokers close connections that are idle for two minutes.
            self._connections.pop(address).close()
        # The loop knows where it is, and that it answers.
        known = self._peers.open_connection(address)
        now_s = time.monotonic()
        if known is None or known.is_encrypted or now_s < self._left_until_s.get(address, 0.0):
            return None
        try:
            connection = BlockingConnection(
                address, known.peer_address, min(timeout_s, _CONNECT_TIMEOUT_S)
            )
        except ConnectFailed as error:
            log.debug("sends to %s are left to the event loop: %s", address, error.reason)
            self._left_until_s[address] = now_s + _LEFT_TO_LOOP_S
            return None
        self._connections[address] = connection
        return connection


def _receipt(ready: Ready, attempt: _Attempt) -> SendReceipt | None:
    if isinstance(attempt.outcome, NetError):
        return None
    return first_receipt(ready, attempt, attempt.outcome)
