"""What went through a broker: in total, by topic, and by topic and group.

Messages only add to counters. The owner calls `tick` once a second; it keeps
samples of the counters, and every rate is the difference between two samples over the time between
them.

    every        kept    gives
    1 s          600 s   rates of 10, 60 and 600 seconds for the whole broker
    10 s         60 s    the last minute of one topic or group
    10 minutes   1 h     its last hour
    1 h          24 h    its last day; what was idle for that long is forgotten
"""

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime
from typing import Final, TypeVar, final

import msgspec

from roquet.broker.tables.tally import PathCounts, Tally
from roquet.clock import Clock
from roquet.histogram import Histogram
from roquet.protocol.bodies.brokers import BrokerStats, BrokerStatsItem

K = TypeVar("K", bound=Hashable)

RATE_SECONDS: Final = (10, 60, 600)
# Topics, or groups times topics, that are counted each for itself. What is more is counted in all.
COUNTER_COUNT_MAX: Final = 100_000


class _Period(msgspec.Struct, frozen=True):
    interval_s: float
    sample_count_max: int


_MINUTE, _HOUR, _DAY = range(3)
_PERIODS: Final = (_Period(10, 7), _Period(600, 7), _Period(3600, 25))


class _Sample(msgspec.Struct, frozen=True):
    messages: int
    size: int
    times: int


_NOTHING: Final = _Sample(0, 0, 0)


@final
class _Counter(Tally):
    """A tally, and what it was at times."""

    __slots__ = ("samples",)

    def __init__(self) -> None:
        # When the last samples were taken there was nothing to count.
        self.samples = tuple([_NOTHING] for _ in _PERIODS)

    def sample(self, period: int) -> None:
        samples = self.samples[period]
        sample = _Sample(self.count, self.size, self.times)
        # Idle counters share one sample: there may be very many of them.
        samples.append(samples[-1] if samples[-1] == sample else sample)
        if len(samples) > _PERIODS[period].sample_count_max:
            del samples[0]

    @property
    def is_idle(self) -> bool:
        samples = self.samples[_DAY]
        is_old = len(samples) == _PERIODS[_DAY].sample_count_max
        return is_old and samples[0].times == self.times


class _Second(msgspec.Struct, frozen=True):
    """The whole broker at one moment."""

    at_s: float
    put: int
    found: int
    missed: int
    transferred: int


class _Totals(msgspec.Struct, frozen=True):
    """Messages since the start, as they stood on two mornings."""

    yesterday: int = 0
    today: int = 0


@final
class Statistics:
    """`cluster` is the key under which Apache's tools ask for the broker as a whole."""

    def __init__(self, clock: Clock, cluster: str) -> None:
        self._clock = clock
        self._cluster = cluster
        self._start_ms = clock.now_ms()
        self._start_s = clock.monotonic_s()
        self._puts = _Counter()
        self._gets = _Counter()
        self.sends = PathCounts()
        self.pulls = PathCounts()
        self.pops = PathCounts()
        self.acks = PathCounts()
        self.batch_acks = PathCounts()
        self._missed_count = 0
        self._failed_put_count = 0
        self._topic_puts: dict[str, _Counter] = {}
        self._group_gets: dict[tuple[str, str], _Counter] = {}
        self._send_backs: dict[tuple[str, str], _Counter] = {}
        self._sampled_s = tuple([self._start_s] for _ in _PERIODS)
        self._seconds: deque[_Second] = deque([self._second()], maxlen=RATE_SECONDS[-1] + 1)
        self._day = self._today()
        self.ended_transactions = EndedTransactions()
        self._put_totals = _Totals()
        self._get_totals = _Totals()

    def count_put(self, topic: str, count: int, size: int) -> None:
        """A send was stored: one message, or a batch of them."""
        self._puts.add(count, size)
        _counter(self._topic_puts, topic).add(count, size)

    @property
    def puts(self) -> Tally:
        """Of all messages that were stored; code that adds to it adds to `topic_puts`, too."""
        return self._puts

    def topic_puts(self, topic: str) -> Tally:
        """May be kept until it is forgotten, which happens to what is idle for a day."""
        return _counter(self._topic_puts, topic)

    @property
    def gets(self) -> Tally:
        """Of all messages that were pulled; code that adds to it adds to `group_gets`, too."""
        return self._gets

    def group_gets(self, group: str, topic: str) -> Tally:
        """May be kept as that of a topic."""
        return _counter(self._group_gets, (group, topic))

    def count_failed_put(self) -> None:
        self._failed_put_count += 1

    def count_get(self, group: str, topic: str, count: int, size: int) -> None:
        """A pull was answered with messages."""
        self._gets.add(count, size)
        _counter(self._group_gets, (group, topic)).add(count, size)

    def count_miss(self) -> None:
        """A pull found nothing."""
        self._missed_count += 1

    def count_send_back(self, group: str, topic: str) -> None:
        """A consumer wants a message again."""
        _counter(self._send_backs, (group, topic)).add(1, 0)

    def tick(self) -> None:
        now_s = self._clock.monotonic_s()
        self._seconds.append(self._second())
        for index, period in enumerate(_PERIODS):
            if now_s - self._sampled_s[index][-1] >= period.interval_s:
                self._sample(index, now_s)
        if self._today() != self._day:
            self._day = self._today()
            self._put_totals = _Totals(self._put_totals.today, self._puts.count)
            self._get_totals = _Totals(self._get_totals.today, self._gets.count)

    @property
    def failed_put_count(self) -> int:
        return self._failed_put_count

    @property
    def missed_count(self) -> int:
        """Pulls that found nothing."""
        return self._missed_count

    def all_topic_puts(self) -> list[tuple[str, Tally]]:
        return list(self._topic_puts.items())

    def all_group_gets(self) -> list[tuple[tuple[str, str], Tally]]:
        """By group and topic."""
        return list(self._group_gets.items())

    def all_send_backs(self) -> list[tuple[tuple[str, str], Tally]]:
        """By group and topic."""
        return list(self._send_backs.items())

    def put_rate(self, topic: str) -> float:
        """Messages a second, in the last minute."""
        return self._rate(self._topic_puts.get(topic))

    def get_rate(self, group: str, topic: str) -> float:
        """Messages a second, in the last minute."""
        return self._rate(self._group_gets.get((group, topic)))

    def find(self, name: str, key: str) -> BrokerStats | None:
        """What Apache's tools ask for by the name of a statistic and a key; None if unknown."""
        topic, _, group = key.partition("@")
        is_cluster = key == self._cluster
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                counter = self._topic_puts.get(key)
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                counter = self._group_gets.get((group, topic))
            case "SNDBCK_PUT_NUMS":
                counter = self._send_backs.get((group, topic))
            case "BROKER_PUT_NUMS" if is_cluster:
                counter = self._puts
            case "BROKER_GET_NUMS" if is_cluster:
                counter = self._gets
            case _:
                counter = None
        return None if counter is None else self._stats(counter, is_size=name.endswith("SIZE"))

    def runtime_entries(self) -> dict[str, str]:
        """The part of a broker's runtime values (28) that is counted here."""
        puts, gets = self._puts, self._gets
        transferred = self._rates("transferred")
        return {
            "bootTimestamp": str(self._start_ms),
            "runtime": _runtime_text(int(self._clock.monotonic_s() - self._start_s)),
            "putMessageTimesTotal": str(puts.count),
            "putMessageFailedTimes": str(self._failed_put_count),
            "putMessageSizeTotal": str(puts.size),
            "putMessageAverageSize": str(_ratio(puts.size, puts.count)),
            "putTps": self._rates("put"),
            "getFoundTps": self._rates("found"),
            "getMissTps": self._rates("missed"),
            "getTotalTps": self._rates("found", "missed"),
            # The tools of 4.9 know only the one spelling, those of 5.5 only the other.
            "getTransferedTps": transferred,
            "getTransferredTps": transferred,
            "msgPutTotalYesterdayMorning": str(self._put_totals.yesterday),
            "msgPutTotalTodayMorning": str(self._put_totals.today),
            "msgPutTotalTodayNow": str(puts.count),
            "msgGetTotalYesterdayMorning": str(self._get_totals.yesterday),
            "msgGetTotalTodayMorning": str(self._get_totals.today),
            "msgGetTotalTodayNow": str(gets.count),
        }

    def path_entries(self) -> dict[str, str]:
        """How many requests took which path, under the current names and those of old releases."""
        fast_sends, slow_sends = str(self.sends.fast), str(self.sends.slow)
        fast_pulls, slow_pulls = str(self.pulls.fast), str(self.pulls.slow)
        return {
            "fastSends": fast_sends,
            "slowSends": slow_sends,
            "fastPulls": fast_pulls,
            "slowPulls": slow_pulls,
            "laneSends": fast_sends,
            "ordinarySends": slow_sends,
            "lanePulls": fast_pulls,
            "ordinaryPulls": slow_pulls,
        }

    def _second(self) -> _Second:
        return _Second(
            self._clock.monotonic_s(),
            self._puts.count,
            self._gets.times,
            self._missed_count,
            self._gets.count,
        )

    def _today(self) -> date:
        """By the time zone of the machine, because operators live in it."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).astimezone().date()

    def _sample(self, period: int, now_s: float) -> None:
        times = self._sampled_s[period]
        times.append(now_s)
        if len(times) > _PERIODS[period].sample_count_max:
            del times[0]
        self._puts.sample(period)
        self._gets.sample(period)
        _sample_all(self._topic_puts, period)
        _sample_all(self._group_gets, period)
        _sample_all(self._send_backs, period)

    def _rates(self, *members: str) -> str:
        """A broker that was just started gives the rate since its start."""
        return " ".join(str(self._broker_rate(members, seconds)) for seconds in RATE_SECONDS)

    def _broker_rate(self, members: Sequence[str], seconds: int) -> float:
        last = self._seconds[-1]
        first = self._seconds[max(0, len(self._seconds) - 1 - seconds)]
        count = sum(getattr(last, member) - getattr(first, member) for member in members)
        return _ratio(count, last.at_s - first.at_s)

    def _rate(self, counter: _Counter | None) -> float:
        if counter is None:
            return 0.0
        return self._period_stats(counter, _MINUTE, is_size=False).tps

    def _stats(self, counter: _Counter, *, is_size: bool) -> BrokerStats:
        return BrokerStats(
            stats_minute=self._period_stats(counter, _MINUTE, is_size=is_size),
            stats_hour=self._period_stats(counter, _HOUR, is_size=is_size),
            stats_day=self._period_stats(counter, _DAY, is_size=is_size),
        )

    def _period_stats(self, counter: _Counter, period: int, *, is_size: bool) -> BrokerStatsItem:
        samples = counter.samples[period]
        # A young counter has fewer samples than there were moments: the last ones are its own.
        moments = self._sampled_s[period][-len(samples) :]
        first, last = samples[0], samples[-1]
        total = last.size - first.size if is_size else last.messages - first.messages
        return BrokerStatsItem(
            sum=total,
            tps=_ratio(total, moments[-1] - moments[0]),
            avgpt=_ratio(total, last.times - first.times),
        )


def _counter(counters: dict[K, _Counter], key: K) -> _Counter:
    found = counters.get(key)
    if found is None:
        found = _Counter()
        if len(counters) < COUNTER_COUNT_MAX:
            counters[key] = found
    return found


def _sample_all(counters: dict[K, _Counter], period: int) -> None:
    for counter in counters.values():
        counter.sample(period)
    if period == _DAY:
        for key in [key for key, counter in counters.items() if counter.is_idle]:
            counters.pop(key).is_forgotten = True


def _ratio(amount: float, by: float) -> float:
    return amount / by if by else 0.0


def _runtime_text(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


# From transactions that end at once to those that need a check, in milliseconds.
_AGES_MS: Final = (
    *(1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000),
    *(600_000, 3_600_000, 24 * 3_600_000),
)


@final
class EndedTransactions:
    """How transactions ended since the broker started, by topic, and how long they took."""

    def __init__(self) -> None:
        self.commits: Counter[str] = Counter()
        self.rollbacks: Counter[str] = Counter()
        self.ages_ms = Histogram(_AGES_MS)

    def count_commit(self, topic: str, age_ms: int) -> None:
        self.commits[topic] += 1
        self.ages_ms.add(age_ms)

    def count_rollback(self, topic: str, age_ms: int) -> None:
        self.rollbacks[topic] += 1
        self.ages_ms.add(age_ms)
