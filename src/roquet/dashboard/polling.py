"""One poll of the cluster serves all viewers.

A poll that fails leaves the last snapshot: pages show what was known, and since when nothing is.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.doctor.examination import examine
from roquet.client.admin.doctor.finding import Line, lines_of
from roquet.client.arguments import utc
from roquet.client.errors import ClientError
from roquet.clock import SystemClock
from roquet.dashboard.history import Fold, History, SeriesKey
from roquet.dashboard.pipelines import BatchWatch
from roquet.dashboard.snapshot import Snapshot, take_snapshot

log = logging.getLogger(__name__)

POLL_S: Final = 5.0
# A snapshot that takes longer is given up; servers that hang are left out of it much earlier.
_POLL_TIMEOUT_S: Final = 60.0
# An examination asks every member of every group, so it takes a small part of the time.
_EXAMINE_S: Final = 30.0
_EXAMINE_SHARE: Final = 10
_EXAMINE_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Examination:
    """What the doctor has found, and when."""

    taken: datetime
    lines: Sequence[Line]


@final
class Poller:
    """The newest state of the cluster, and its history."""

    def __init__(self, admin: AsyncAdmin, poll_s: float = POLL_S) -> None:
        self._admin = admin
        self._poll_s = poll_s
        self.snapshot: Snapshot | None = None
        self.examination: Examination | None = None
        # Why the last poll failed; None if it did not.
        self.problem: str | None = None
        self.history = History()
        self.batches = BatchWatch()
        # Counts polls, and examinations, that ended well or not.
        self.version = 0
        self.is_stopped = False
        self._waiting: set[asyncio.Future[None]] = set()

    async def poll_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            await self.poll()
            await asyncio.sleep(max(self._poll_s / 2, self._poll_s - (loop.time() - started_s)))

    async def examine_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            await self.examine()
            await asyncio.sleep(max(_EXAMINE_S, _EXAMINE_SHARE * (loop.time() - started_s)))

    async def poll(self) -> None:
        """Never raises ClientError: it becomes `problem`."""
        try:
            async with asyncio.timeout(_POLL_TIMEOUT_S):
                snapshot = await take_snapshot(self._admin.partial(), self.snapshot)
        except ClientError as error:
            self._fail(str(error))
        except TimeoutError:
            self._fail(f"the cluster did not answer within {_POLL_TIMEOUT_S:g} s")
        else:
            if self.problem is not None:
                log.info("the cluster answers again")
            self.snapshot, self.problem = snapshot, None
            _remember(self.history, snapshot)
            self.batches.observe(snapshot)
        self._announce()

    async def examine(self) -> None:
        """A failure is left to polls, which show it."""
        try:
            async with asyncio.timeout(_EXAMINE_TIMEOUT_S):
                found = [each async for each in examine(self._admin.partial())]
        except (ClientError, TimeoutError) as error:
            log.info("the cluster could not be examined: %s", error)
            return
        self.examination = Examination(utc(SystemClock().now_ms()), lines_of(found))
        self._announce()

    async def changed(self, version: int) -> None:
        """Returns once there is something newer than `version`, and when polling has stopped."""
        while self.version <= version and not self.is_stopped:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)

    def stop(self) -> None:
        self.is_stopped = True
        self._wake()

    def _fail(self, problem: str) -> None:
        if self.problem is None:
            log.warning("the cluster cannot be polled: %s", problem)
        self.problem = problem

    def _announce(self) -> None:
        self.version += 1
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)


def _remember(history: History, snapshot: Snapshot) -> None:
    now_s = snapshot.taken.timestamp()
    history.add(SeriesKey("cluster", "", "put"), now_s, snapshot.put_rate)
    history.add(SeriesKey("cluster", "", "get"), now_s, snapshot.get_rate)
    history.add(SeriesKey("cluster", "", "lag"), now_s, snapshot.lag, Fold.MAX)
    for broker in snapshot.brokers:
        name = broker.address
        history.add(SeriesKey("broker", name, "put"), now_s, broker.put_rate)
        history.add(SeriesKey("broker", name, "get"), now_s, broker.get_rate)
        history.add(SeriesKey("broker", name, "disk"), now_s, broker.disk_used_ratio, Fold.MAX)
    for topic, sample in snapshot.topic_samples.items():
        history.add(SeriesKey("topic", topic, "rate"), now_s, sample.rate)
    for group in snapshot.groups:
        history.add(SeriesKey("group", group, "lag"), now_s, snapshot.lag_of(group), Fold.MAX)
    for group, details in snapshot.group_details.items():
        behind = details.progress.time_lag
        seconds = None if behind is None else behind / timedelta(seconds=1)
        history.add(SeriesKey("group", group, "behind"), now_s, seconds, Fold.MAX)
        history.add(SeriesKey("group", group, "rate"), now_s, details.rate)
