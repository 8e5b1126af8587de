"""Sends the rows of an outbox, again and again, until they are stored.

One relay sends at a time; others wait for its lease to end. It sends rows first and deletes them
afterwards, so a relay killed in between leaves rows whose messages are sent again by the next one:
with the same message id, by which `Idempotent` recognises them. Nothing is lost.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Final, final

from roquet.client.arguments import bad, check_count, check_timeout
from roquet.client.blocking.consumers import Gate, stop_signals
from roquet.client.blocking.producer import Producer
from roquet.client.errors import BadArgument, ClientError, SendFailed
from roquet.client.producer.receipt import SendReceipt
from roquet.clock import Clock, SystemClock
from roquet.outbox.rows import OutboxRow, OutboxTable, new_owner
from roquet.throttled_log import ThrottledLog

log: Final = logging.getLogger(__name__)


@final
class OutboxRelay:
    """Moves rows of an outbox to brokers. `producer` is open, and may serve others, too.

    It looks for new rows after `interval_s`, sends up to `batch_size` of them together, and keeps
    its lease for `lease_s`, after which another relay takes over if it ends. The clocks of machines
    with relays have to agree better than that. Raises BadArgument.

    For example:

        with Producer("127.0.0.1:9876", "shop") as producer:
            OutboxRelay(outbox.table_in(engine), producer).run()  # until Ctrl-C or SIGTERM
    """

    def __init__(
        self,
        table: OutboxTable,
        producer: Producer,
        *,
        batch_size: int = 500,
        interval_s: float = 0.5,
        lease_s: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(producer, Producer):
            raise bad("producer", "a Producer", producer)
        check_count("batch_size", batch_size)
        check_timeout("interval_s", interval_s)
        check_timeout("lease_s", lease_s)
        self._table = table
        self._producer = producer
        self._batch_size = batch_size
        self._interval_s = interval_s
        self._lease_s = lease_s
        self._clock = clock or SystemClock()
        self._owner = new_owner()
        self._stopped = threading.Event()
        self._log = ThrottledLog(log, self._clock.monotonic_s)

    def run(self) -> None:
        """Sends until SIGINT or SIGTERM, or `stop`. Needs the main thread, which gets signals;
        in others use `run_until_stopped`. Raises what the database raises."""
        with stop_signals(self.run) as gate:
            threading.Thread(target=lambda: self._stop_after(gate), daemon=True).start()
            self.run_until_stopped()

    def run_until_stopped(self) -> None:
        """Sends until another thread calls `stop`. Raises what the database raises."""
        try:
            while not self._stopped.is_set():
                if self.send_pending() < self._batch_size:
                    self._stopped.wait(self._interval_s)
        finally:
            self._table.release(self._owner)

    def _stop_after(self, gate: Gate) -> None:
        gate.wait()
        self.stop()

    def stop(self) -> None:
        """Ends `run` after the rows that are being sent."""
        self._stopped.set()

    def send_pending(self) -> int:
        """Sends one batch of rows; returns how many were stored. 0 while another relay has the
        lease. Raises what the database raises."""
        lease_end_s = self._clock.monotonic_s() + self._lease_s
        if not self._table.lease(self._owner, self._lease_s):
            return 0
        stored: list[int] = []
        try:
            for row_numbers in self._rounds(self._table.pending(self._batch_size), lease_end_s):
                stored += row_numbers
        finally:
            if stored:
                self._table.delete(stored)
        return len(stored)

    def _rounds(self, rows: Sequence[OutboxRow], lease_end_s: float) -> Iterable[list[int]]:
        """Yields the numbers of rows whose messages are stored. A round has all rows without an
        order key, and the next one of each key: the one after it waits until it is stored."""
        waiting = by_order_key(rows)
        while waiting:
            if self._clock.monotonic_s() >= lease_end_s:
                return  # Another relay may have started.
            sending = [(row, self._submit(row)) for queue in waiting for row in next_rows(queue)]
            results = [(row, self._is_stored(row, future)) for row, future in sending]
            yield [row.number for row, is_stored in results if is_stored]
            failed_keys = {row.order_key for row, is_stored in results if not is_stored}
            waiting = [
                queue for queue in waiting if queue and queue[0].order_key not in failed_keys
            ]

    def _submit(self, row: OutboxRow) -> "Future[SendReceipt] | ClientError":
        try:
            return self._producer.submit(row.message, order_key=row.order_key)
        except (BadArgument, SendFailed) as error:
            return error

    def _is_stored(self, row: OutboxRow, sending: "Future[SendReceipt] | ClientError") -> bool:
        error = sending if isinstance(sending, ClientError) else sending.exception()
        if error is None:
            return True
        if not isinstance(error, ClientError):
            raise error
        if is_hopeless(error):
            log.error("row %d of the outbox cannot be sent, and stays there: %s", row.number, error)
            self._table.fail(row.number, str(error))
        else:
            self._log.warning("sending", f"rows of the outbox are not sent yet: {error}")
        return False


def is_hopeless(error: ClientError) -> bool:
    """Whether the same message will be refused again."""
    return isinstance(error, BadArgument) or (isinstance(error, SendFailed) and not error.may_pass)


def by_order_key(rows: Iterable[OutboxRow]) -> list[deque[OutboxRow]]:
    """Those without a key first, then those of each key, in their order."""
    queues: dict[str | None, deque[OutboxRow]] = {}
    for row in rows:
        queues.setdefault(row.order_key, deque()).append(row)
    return list(queues.values())


def next_rows(queue: deque[OutboxRow]) -> list[OutboxRow]:
    """Takes what may be sent at the same time: all without an order key, else the first one."""
    count = len(queue) if queue[0].order_key is None else 1
    return [queue.popleft() for _ in range(count)]
