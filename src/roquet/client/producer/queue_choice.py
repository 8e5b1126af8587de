"""Which queue a message goes to, and whether it is worth sending again: decisions, no I/O.

Brokers that were slow or failed stay out for a while, if the producer wants that:

    took at least (ms)    550   1000   2000   3000   15000
    stays out (s)          30     60    120    180     600
"""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, final
from uuid import UUID

from roquet.client.denials import denial_in
from roquet.client.errors import NoTimers, NotYetSafe, RequestRefused
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.errors import BadAddress, CallTimedOut, ConnectFailed, ConnectionLost, NetError
from roquet.protocol.codes import ResponseCode
from roquet.protocol.java_hash import java_hash

OrderKey = str | int | UUID
AttemptFailed = NetError | RequestRefused | NoTimers | NotYetSafe

# What another broker, or the same one a little later, may well accept. 5.x added the second.
RETRY_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)

_PAUSE_S: Final = 0.1
_PAUSE_S_MAX: Final = 1.0

_LATENCIES_MS: Final = (50, 100, 550, 1000, 2000, 3000, 15000)
_OUT_S: Final = (0, 0, 30, 60, 120, 180, 600)
# A failure counts as this slow.
_FAILED_LATENCY_MS: Final = 30_000

_INT32_MAX: Final = 2**31 - 1
_WORD: Final = 2**32


class Target(NamedTuple):
    """Where the caller wants a message: in one queue, with others of its key, or anywhere."""

    queue: QueueRef | None = None
    order_key: OrderKey | None = None

    @property
    def is_fixed(self) -> bool:
        return self.queue is not None or self.order_key is not None


ANYWHERE: Final = Target()


@final
class QueueRounds:
    """Round robin over the queues of each topic, for all attempts of one producer."""

    __slots__ = ("_clock", "_faults", "_turns")

    def __init__(self, clock: Clock, *, avoid_slow_brokers: bool) -> None:
        self._clock = clock
        self._faults = FaultTable() if avoid_slow_brokers else None
        # Where a round starts is random, or all producers would start at one broker.
        self._turns: defaultdict[str, int] = defaultdict(lambda: random.getrandbits(30))

    def next(self, queues: Sequence[QueueRef], failed_broker: str | None = None) -> QueueRef:
        topic = queues[0].topic
        turn = self._turns[topic] = self._turns[topic] + 1
        if failed_broker is None and self._faults is None:
            return queues[turn % len(queues)]
        if self._faults is not None:
            return self._faults.pick(queues, turn, self._clock.monotonic_s())
        return pick_queue(queues, turn, failed_broker)

    def put_back(self, topic: str) -> None:
        """The last queue of a topic was not used, and is the next one again."""
        self._turns[topic] -= 1

    def note(self, broker: str, latency_s: float, *, has_failed: bool) -> None:
        """How an attempt went."""
        if self._faults is not None:
            now_s = self._clock.monotonic_s()
            self._faults.note(broker, latency_s * 1000, now_s, has_failed=has_failed)


def pick_queue(queues: Sequence[QueueRef], turn: int, avoid_broker: str | None) -> QueueRef:
    """Round robin, skipping the broker that just failed unless it is the only one."""
    if avoid_broker is not None:
        queues = [queue for queue in queues if queue.broker_name != avoid_broker] or queues
    return queues[turn % len(queues)]


def queue_of_key(queues: Sequence[QueueRef], key: OrderKey) -> QueueRef:
    """The same queue for the same key, and the same one that Java producers choose."""
    return queues[abs(_java_hash_of(key)) % len(queues)]


class RetryRules(NamedTuple):
    """Which answers of a broker are worth another attempt: refusals with one of these codes and,
    if so, that a message is stored but not safe, or that no answer came: both may store it
    twice."""

    codes: Collection[int] = RETRY_CODES
    not_safe: bool = False
    unknown: bool = True


DEFAULT_RULES: Final = RetryRules()


def is_worth_retrying(error: AttemptFailed, rules: RetryRules = DEFAULT_RULES) -> bool:
    if isinstance(error, RequestRefused):
        return error.code in rules.codes and denial_in(error.remark) is None
    if isinstance(error, NotYetSafe):
        return rules.not_safe
    if isinstance(error, ConnectionLost | CallTimedOut):
        return rules.unknown
    return not isinstance(error, BadAddress | NoTimers)


def may_retry(errors: Sequence[AttemptFailed], count_max: int, rules: RetryRules) -> bool:
    """Whether one more attempt may follow those that ended in errors.

    What did not even reach a broker does not count: it is tried until the time is over. With a
    `count_max` of 1 nothing is tried twice.
    """
    if not errors:
        return True
    if not is_worth_retrying(errors[-1], rules):
        return False
    if count_max == 1:
        return False
    return sum(not isinstance(error, ConnectFailed) for error in errors) < count_max


def pause_before(attempt: int) -> float:
    """Seconds to wait before an attempt, counted from 0, where one failed before: a broker needs
    time to come back. Another one can be tried at once."""
    return min(_PAUSE_S * attempt, _PAUSE_S_MAX)


class _Fault(NamedTuple):
    latency_ms: float
    out_until_s: float


@final
class FaultTable:
    """How brokers did lately. Times are those of a clock that only grows."""

    __slots__ = ("_faults",)

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}

    def note(self, broker: str, latency_ms: float, now_s: float, *, has_failed: bool) -> None:
        out_s = out_time_s(_FAILED_LATENCY_MS if has_failed else latency_ms)
        self._faults[broker] = _Fault(latency_ms, now_s + out_s)

    def is_available(self, broker: str, now_s: float) -> bool:
        fault = self._faults.get(broker)
        return fault is None or now_s >= fault.out_until_s

    def pick(self, queues: Sequence[QueueRef], turn: int, now_s: float) -> QueueRef:
        """The next queue of an available broker; if all are out, one of the better half."""
        for step in range(len(queues)):
            queue = queues[(turn + step) % len(queues)]
            if self.is_available(queue.broker_name, now_s):
                return queue
        broker = self._least_bad(turn, now_s)
        of_broker = [queue for queue in queues if queue.broker_name == broker]
        if of_broker:
            return of_broker[turn % len(of_broker)]
        # It has no queue of this topic any more, so it must not be proposed again.
        del self._faults[broker]
        return queues[turn % len(queues)]

    def _least_bad(self, turn: int, now_s: float) -> str:
        ranked = sorted(
            self._faults,
            key=lambda broker: (
                not self.is_available(broker, now_s),
                self._faults[broker],
            ),
        )
        return ranked[turn % max(1, len(ranked) // 2)]


def out_time_s(latency_ms: float) -> int:
    """How long a broker that took this long stays out."""
    row = bisect_right(_LATENCIES_MS, latency_ms) - 1
    return _OUT_S[row] if row >= 0 else 0


def _java_hash_of(key: OrderKey) -> int:
    if isinstance(key, str | UUID):
        return java_hash(str(key))
    if -_INT32_MAX - 1 <= key <= _INT32_MAX:
        return key  # Java's Integer
    mixed = (key ^ key >> 32) % _WORD  # Java's Long, of which both halves count
    return mixed - _WORD if mixed > _INT32_MAX else mixed
