"""What went through a broker."""

import os
import time
from collections.abc import Iterator

import pytest

from roquet.broker.tables import statistics
from roquet.broker.tables.statistics import Statistics
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import BrokerStats, BrokerStatsItem
from roquet.protocol.bodies.name_server import KvTable
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.golden_frames import golden_frames

DAY_S = 86_400
HOUR_S = 3_600


@pytest.fixture
def utc() -> Iterator[None]:
    """Midnight is that of the machine."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


class Run:
    """Statistics with a clock that ticks as the broker would let it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.clock = FakeClock(now_ms)
        self.statistics = Statistics(self.clock, "cluster")

    def wait(self, seconds: float, step_s: float = 1.0) -> None:
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            self.statistics.tick()

    def entry(self, name: str) -> str:
        return self.statistics.runtime_entries()[name]

    def rates(self, name: str) -> list[float]:
        return [float(text) for text in self.entry(name).split(" ")]


def item(total: int, tps: float, average: float) -> BrokerStatsItem:
    return BrokerStatsItem(sum=total, tps=tps, avgpt=average)


NONE = item(0, 0.0, 0.0)


# --- the whole broker ---


def test_totals_are_counted() -> None:
    run = Run()
    run.statistics.count_put("orders", 1, 100)
    run.statistics.count_put("bills", 3, 200)
    run.statistics.count_failed_put()
    run.statistics.count_get("g", "orders", 2, 150)
    assert run.entry("putMessageTimesTotal") == "4"
    assert run.entry("putMessageSizeTotal") == "300"
    assert run.entry("putMessageAverageSize") == "75.0"
    assert run.entry("putMessageFailedTimes") == "1"
    assert run.entry("msgPutTotalTodayNow") == "4"
    assert run.entry("msgGetTotalTodayNow") == "2"


def test_rates_are_those_of_ten_sixty_and_six_hundred_seconds() -> None:
    run = Run()
    run.statistics.count_put("orders", 600, 1)
    run.wait(560)
    run.statistics.count_put("orders", 60, 1)
    run.wait(35)
    run.statistics.count_put("orders", 10, 1)
    run.wait(5)
    assert run.rates("putTps") == [1.0, 70 / 60, 670 / 600]
    run.wait(600)
    assert run.rates("putTps") == [0.0, 0.0, 0.0]


def test_a_young_broker_reports_the_rate_of_its_life() -> None:
    run = Run()
    assert run.rates("putTps") == [0.0, 0.0, 0.0]
    run.statistics.count_put("orders", 10, 1)
    run.wait(2)
    assert run.rates("putTps") == [5.0, 5.0, 5.0]


def test_pulls_that_find_miss_and_bring_are_distinguished() -> None:
    run = Run()
    for _ in range(20):
        run.statistics.count_get("g", "orders", 32, 3200)
        run.statistics.count_miss()
        run.statistics.count_miss()
    run.wait(10)
    assert run.rates("getFoundTps")[0] == 2.0
    assert run.rates("getMissTps")[0] == 4.0
    assert run.rates("getTotalTps")[0] == 6.0
    assert run.rates("getTransferedTps")[0] == 64.0
    assert run.entry("getTransferredTps") == run.entry("getTransferedTps")


@pytest.mark.usefixtures("utc")
def test_what_stood_in_the_morning_is_kept_for_two_days() -> None:
    run = Run(now_ms=DAY_S * 1000 * 19_000 + 1)

    def mornings() -> tuple[str, str, str, str]:
        return (
            run.entry("msgPutTotalYesterdayMorning"),
            run.entry("msgPutTotalTodayMorning"),
            run.entry("msgGetTotalYesterdayMorning"),
            run.entry("msgGetTotalTodayMorning"),
        )

    run.statistics.count_put("orders", 5, 1)
    run.statistics.count_get("g", "orders", 3, 1)
    run.wait(DAY_S - HOUR_S, HOUR_S)
    assert mornings() == ("0", "0", "0", "0")
    run.wait(HOUR_S, HOUR_S)
    assert mornings() == ("0", "5", "0", "3")
    run.statistics.count_put("orders", 1, 1)
    run.wait(DAY_S, HOUR_S)
    assert mornings() == ("5", "6", "3", "3")


def test_the_age_is_reported_as_apache_does() -> None:
    run = Run()
    assert run.entry("bootTimestamp") == str(START_MS)
    assert run.entry("runtime") == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    run.clock.advance(2 * DAY_S + 3 * HOUR_S + 4 * 60 + 5.9)
    assert run.entry("runtime") == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"


def test_every_entry_is_one_that_apache_sends() -> None:
    theirs: set[str] = set()
    for frame in golden_frames():
        if frame.request_code == 28 and frame.kind == "response":
            theirs |= set(read_body(KvTable, frame.command.body).table)
    assert theirs
    assert set(Run().statistics.runtime_entries()) <= theirs


# --- one topic, one group ---


def test_the_last_minute_of_a_topic() -> None:
    run = Run()
    run.wait(25)
    run.statistics.count_put("orders", 1, 100)
    run.statistics.count_put("orders", 5, 200)
    assert run.statistics.find("TOPIC_PUT_NUMS", "orders") == BrokerStats()
    run.wait(10)
    # Nothing had been counted when the last sample before the first message was taken.
    assert run.statistics.find("TOPIC_PUT_NUMS", "orders") == BrokerStats(
        stats_minute=item(6, 0.6, 3.0)
    )
    assert run.statistics.find("TOPIC_PUT_SIZE", "orders") == BrokerStats(
        stats_minute=item(300, 30.0, 150.0)
    )
    assert run.statistics.put_rate("orders") == 0.6
    run.wait(50)
    assert run.statistics.put_rate("orders") == 0.1
    run.wait(20)
    assert run.statistics.put_rate("orders") == 0.0


def test_the_last_hour_and_the_last_day_of_a_topic() -> None:
    run = Run()
    run.wait(60, 10)
    run.statistics.count_put("orders", 36, 1)
    run.wait(HOUR_S - 60, 10)
    found = run.statistics.find("TOPIC_PUT_NUMS", "orders")
    assert found == BrokerStats(
        stats_minute=NONE, stats_hour=item(36, 0.01, 36.0), stats_day=item(36, 0.01, 36.0)
    )
    run.wait(HOUR_S, 10)
    found = run.statistics.find("TOPIC_PUT_NUMS", "orders")
    assert found == BrokerStats(stats_hour=NONE, stats_day=item(36, 0.005, 36.0))


def test_gets_and_what_returns_are_counted_by_topic_and_group() -> None:
    run = Run()
    run.statistics.count_get("g", "orders", 20, 2_000)
    run.statistics.count_get("h", "orders", 10, 1_000)
    run.statistics.count_send_back("g", "orders")
    run.wait(10)
    minute = BrokerStats(stats_minute=item(20, 2.0, 20.0))
    assert run.statistics.find("GROUP_GET_NUMS", "orders@g") == minute
    assert run.statistics.get_rate("h", "orders") == 1.0
    assert run.statistics.find("GROUP_GET_SIZE", "orders@h") == BrokerStats(
        stats_minute=item(1_000, 100.0, 1_000.0)
    )
    assert run.statistics.find("SNDBCK_PUT_NUMS", "orders@g") == BrokerStats(
        stats_minute=item(1, 0.1, 1.0)
    )


def test_the_broker_as_a_whole_goes_by_the_name_of_its_cluster() -> None:
    run = Run()
    run.statistics.count_put("orders", 10, 1)
    run.statistics.count_get("g", "orders", 20, 1)
    run.wait(10)
    puts = run.statistics.find("BROKER_PUT_NUMS", "cluster")
    gets = run.statistics.find("BROKER_GET_NUMS", "cluster")
    assert puts is not None
    assert gets is not None
    assert (puts.stats_minute.sum, gets.stats_minute.sum) == (10, 20)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "missing"),
        ("GROUP_GET_NUMS", "missing@g"),
        ("GROUP_GET_NUMS", "orders"),
        ("SNDBCK_PUT_NUMS", "orders@g"),
        ("BROKER_PUT_NUMS", "orders"),
        ("NO_SUCH_NUMS", "orders"),
    ],
)
def test_what_was_never_counted_is_not_found(name: str, key: str) -> None:
    run = Run()
    run.statistics.count_put("orders", 1, 1)
    assert run.statistics.find(name, key) is None
    assert run.statistics.put_rate("missing") == 0.0
    assert run.statistics.get_rate("g", "missing") == 0.0


def test_a_topic_that_was_idle_for_a_day_is_forgotten() -> None:
    run = Run()
    run.statistics.count_put("idle", 1, 1)
    run.statistics.count_put("busy", 1, 1)
    for _ in range(24):
        run.statistics.count_put("busy", 1, 1)
        run.wait(HOUR_S, 600)
    assert run.statistics.find("TOPIC_PUT_NUMS", "idle") is not None
    run.wait(HOUR_S, 600)
    assert run.statistics.find("TOPIC_PUT_NUMS", "idle") is None
    assert run.statistics.find("TOPIC_PUT_NUMS", "busy") is not None
    assert run.entry("putMessageTimesTotal") == "26"


def test_what_is_counted_each_for_itself_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "COUNTER_COUNT_MAX", 2)
    counted = Statistics(FakeClock(), "cluster")
    for number in range(4):
        counted.count_put(f"topic-{number}", 1, 10)
    assert [topic for topic, _ in counted.all_topic_puts()] == ["topic-0", "topic-1"]
    assert counted.puts.count == 4
