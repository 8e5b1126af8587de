"""The cost of the dashboard: to the cluster and to its own process, with 1, 50 and 200 viewers.

The cluster has 1,000 topics and 500 groups. A viewer has the list of topics open: it waits for
events and asks for its page again with each. Shares are of one core, and include polls; the line
without viewers is what polls alone take. `--quick` has fewer topics and shorter turns.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

from roquet.client.admin.admin import AsyncAdmin
from tests.support.our_cluster import OurCluster
from tests.support.our_dashboard import OurDashboard
from tests.support.process_memory import resident_size
from tests.support.process_time import work_s

VIEWER_COUNTS = (0, 1, 50, 200)
AT_ONCE = 16


class Turn(NamedTuple):
    viewers: int
    dashboard_share: float
    cluster_share: float
    page_ms: float | None
    page_size: int


async def fill(name_server: str, topic_count: int, group_count: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)
    async with AsyncAdmin(name_server, timeout_s=30.0) as admin:

        async def topic(index: int) -> None:
            async with gate:
                await admin.create_topic(f"topic-{index:04}")

        async def group(index: int) -> None:
            async with gate:
                await admin.create_group(f"group-{index:04}")

        await asyncio.gather(*map(topic, range(topic_count)))
        await asyncio.gather(*map(group, range(group_count)))


class Visit(NamedTuple):
    """Of one page."""

    seconds: float
    size: int


async def watch(session: aiohttp.ClientSession, base: str, visits: list[Visit]) -> None:
    """Until it is cancelled, a page with each event."""
    async with session.get(f"{base}/events") as events:
        async for line in events.content:
            if line.startswith(b"data:"):
                started_s = time.perf_counter()
                async with session.get(f"{base}/topics?sort=-rate") as answer:
                    size = len(await answer.read())
                visits.append(Visit(time.perf_counter() - started_s, size))


async def turn(viewers: int, seconds: float, served: OurDashboard, cluster: OurCluster) -> Turn:
    visits: list[Visit] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = [asyncio.ensure_future(watch(session, served.base, visits)) for _ in range(viewers)]
        before = work_s(served.process_id), work_s(cluster.process_id)
        started_s = time.perf_counter()
        await asyncio.sleep(seconds)
        passed_s = time.perf_counter() - started_s
        after = work_s(served.process_id), work_s(cluster.process_id)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ours, theirs = ((last - first) / passed_s for first, last in zip(before, after, strict=True))
    page_ms = statistics.median(each.seconds for each in visits) * 1000 if visits else None
    size = max((each.size for each in visits), default=0)
    return Turn(viewers, ours, theirs, page_ms, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    topics, groups, seconds = (100, 50, 8.0) if given.quick else (1000, 500, 30.0)
    with (
        tempfile.TemporaryDirectory() as directory,
        OurCluster(Path(directory) / "cluster") as cluster,
    ):
        asyncio.run(fill(cluster.name_server, topics, groups))
        started = OurDashboard(Path(directory) / "dashboard", cluster.name_server)
        # As it is by default.
        started.words = ("--interval", "5s")
        with started as served:
            print(f"{topics:,} topics, {groups:,} groups, a poll in 5 s")
            print("viewers  dashboard  cluster    page (median)   size")
            for count in VIEWER_COUNTS:
                found = asyncio.run(turn(count, seconds, served, cluster))
                page = "-" if found.page_ms is None else f"{found.page_ms:.0f} ms"
                print(
                    f"{count:7}  {found.dashboard_share:9.1%}  {found.cluster_share:7.1%}"
                    f"  {page:>14}  {found.page_size / 1024:5.0f} KB"
                )
            print(f"memory of the dashboard: {resident_size(served.process_id) >> 20} MB")


if __name__ == "__main__":
    main()
