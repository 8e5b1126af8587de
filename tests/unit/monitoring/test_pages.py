"""Which page says what."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from roquet.monitoring import pages
from roquet.monitoring.exposition import CONTENT_TYPE, Exposition, Metric, MetricKind
from roquet.monitoring.pages import ServerPages, serve_pages
from roquet.protocol.host import Address
from tests.support.fake_clock import FakeClock
from tests.support.http_asking import page
from tests.support.scraped import scraped

LOOKS = Metric("looks_total", MetricKind.COUNTER, "How often it was measured.", ("node_id",))


class Thing:
    """Is watched, and counts how often."""

    def __init__(self, name: str = "a", *obstacles: str) -> None:
        self._name = name
        self._obstacles = list(obstacles)
        self.look_count = 0

    def measure(self, into: Exposition) -> Iterator[None]:
        self.look_count += 1
        into.add(LOOKS, {"node_id": self._name}, self.look_count)
        yield

    def unready_reasons(self) -> list[str]:
        return self._obstacles


async def test_pages_are_found_over_http() -> None:
    async with serve_pages(Address("127.0.0.1", 0), [Thing()], FakeClock()) as port:
        metrics = await page(port, "/metrics")
        assert metrics.headers["Content-Type"] == CONTENT_TYPE
        assert scraped(metrics.body).value("looks_total", node_id="a") == 1
        assert (await page(port, "/health")).body == b"alive\n"
        assert (await page(port, "/ready")).body == b"ready\n"
        assert (await page(port, "/")).status is HTTPStatus.NOT_FOUND


async def test_what_is_in_the_way_of_any_server_is_reported() -> None:
    things = [Thing("a"), Thing("b", "the disk is full"), Thing("c", "nobody knows it")]
    found = await ServerPages(things, FakeClock()).find("/ready")
    assert found is not None
    assert found.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert found.body == b"the disk is full\nnobody knows it\n"


async def test_however_many_ask_nothing_is_measured_twice_a_second() -> None:
    clock, thing = FakeClock(), Thing()
    found = ServerPages([thing], clock)
    await asyncio.gather(*(found.find("/metrics") for _ in range(20)))
    assert thing.look_count == 1
    clock.advance(1.0)
    await found.find("/metrics")
    assert thing.look_count == 2


async def test_others_have_their_turn_while_much_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "_TURN_S_MAX", 0.0)
    turns = 0

    class Large(Thing):
        def measure(self, into: Exposition) -> Iterator[None]:
            for _ in range(10):
                yield from super().measure(into)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await ServerPages([Large()], FakeClock()).find("/metrics")
    counting.cancel()
    assert turns >= 10


async def test_the_process_is_measured_whatever_it_serves() -> None:
    async with serve_pages(Address("127.0.0.1", 0), [], FakeClock()) as port:
        found = scraped((await page(port, "/metrics")).body)
    assert found.kinds["roquet_event_loop_lag_seconds"] == "histogram"
    assert found.value("process_resident_memory_bytes") > 1 << 20
    assert found.value("process_open_fds") >= 3
