"""Polls that fail leave what was known."""

import asyncio
from datetime import UTC, datetime

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.dashboard.audit import ENTRY_COUNT_MAX, Audit
from roquet.dashboard.history import SeriesKey
from roquet.dashboard.polling import Poller
from roquet.testing.cluster import Cluster
from tests.support.fake_clock import FakeClock


async def test_a_cluster_that_is_gone_leaves_what_was_known_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    await cluster.open()
    async with AsyncAdmin(cluster.name_server, timeout_s=2.0) as admin:
        poller = Poller(admin)
        await poller.poll()
        assert poller.problem is None
        assert poller.snapshot is not None
        before = poller.snapshot
        assert poller.history.points(SeriesKey("cluster", "", "put"), 0)
        await cluster.close()
        await poller.poll()
        assert poller.snapshot is before
        assert "no name server answered" in str(poller.problem)
        await poller.poll()
    assert caplog.text.count("cannot be polled") == 1


async def test_viewers_wait_for_the_next_poll_and_for_the_end() -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        poller = Poller(admin)
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            viewers = [tasks.create_task(poller.changed(0)) for _ in range(3)]
            await poller.poll()
            await asyncio.gather(*viewers)
            last = tasks.create_task(poller.changed(poller.version))
            await asyncio.sleep(0)
            assert not last.done()
            poller.stop()


async def test_the_doctor_looks_too() -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        poller = Poller(admin)
        await poller.examine()
    assert poller.examination is not None
    assert any("broker-a" in each.subject for each in poller.examination.lines)


def test_the_newest_changes_are_kept_with_their_outcome() -> None:
    audit = Audit(FakeClock())
    for index in range(ENTRY_COUNT_MAX + 1):
        audit.note("me", "::1", f"change {index}", "refused" if index % 2 else None)
    newest = next(iter(audit))
    assert len(audit) == ENTRY_COUNT_MAX
    assert newest.change == f"change {ENTRY_COUNT_MAX}"
    assert newest.error is None
    assert newest.time.astimezone(UTC) <= datetime.now(UTC)
