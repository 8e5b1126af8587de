"""The HTTP pages of a server.

/metrics    measurements of the servers of this process, for Prometheus
/health     200 as long as the event loop runs
/ready      200, or 503 and one line for each reason why clients are not served
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import chain
from typing import Final, Protocol, final

from roquet.clock import Clock
from roquet.monitoring.exposition import CONTENT_TYPE, Exposition
from roquet.monitoring.server_metrics import LoopLag, measure_process
from roquet.net.http_pages import HttpPort, Page
from roquet.net.service import OnFailure, Services
from roquet.protocol.host import Address

log = logging.getLogger(__name__)

# Servers are not measured more often, however many requests come in.
_METRICS_AGE_S_MAX: Final = 1.0
# Measuring yields to clients after this long.
_TURN_S_MAX: Final = 0.002


class MonitoredServer(Protocol):
    """A server, as monitoring sees it."""

    def measure(self, into: Exposition) -> Iterator[None]:
        """Yields often, so that other tasks can run in between."""

    def unready_reasons(self) -> list[str]:
        """Why clients are not served now; empty if they are."""


@final
class ServerPages:
    """The pages of all servers of one process."""

    def __init__(self, servers: Sequence[MonitoredServer], clock: Clock) -> None:
        self._servers = servers
        self._clock = clock
        self._measuring = asyncio.Lock()
        self._metrics = b""
        self._measured_s = -_METRICS_AGE_S_MAX
        self.loop_lag = LoopLag()

    async def find(self, path: str) -> Page | None:
        match path:
            case "/metrics":
                return Page(await self._measured(), content_type=CONTENT_TYPE)
            case "/health":
                return Page(b"alive\n")
            case "/ready":
                return self._readiness()
            case _:
                return None

    def _readiness(self) -> Page:
        reasons = [line for each in self._servers for line in each.unready_reasons()]
        if reasons:
            text = "".join(f"{line}\n" for line in reasons)
            return Page(text.encode(errors="replace"), HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(b"ready\n")

    async def _measured(self) -> bytes:
        async with self._measuring:
            if self._clock.monotonic_s() >= self._measured_s + _METRICS_AGE_S_MAX:
                self._metrics = await self._measure()
                self._measured_s = self._clock.monotonic_s()
            return self._metrics

    async def _measure(self) -> bytes:
        exposition = Exposition()
        measure_process(exposition, self.loop_lag.lags)
        turn_end_s = self._clock.monotonic_s() + _TURN_S_MAX
        for _ in chain.from_iterable(each.measure(exposition) for each in self._servers):
            if self._clock.monotonic_s() >= turn_end_s:
                await asyncio.sleep(0)
                turn_end_s = self._clock.monotonic_s() + _TURN_S_MAX
        return exposition.text()


@asynccontextmanager
async def serve_pages(
    place: Address, servers: Sequence[MonitoredServer], clock: Clock
) -> AsyncIterator[int]:
    """Answers while the block runs; the port is the one it got.

    Raises OSError, such as AddressTaken, or NoFreePort.
    """
    pages = ServerPages(servers, clock)
    async with Services("pages") as services:
        services.run("measure lag", pages.loop_lag.keep_measuring, on_failure=OnFailure.RESTART)
        http, port = await HttpPort.open(place.ip, place.port, pages.find)
        log.info("serving http://%s/metrics, /health and /ready", place._replace(port=port))
        try:
            yield port
        finally:
            await http.close()
