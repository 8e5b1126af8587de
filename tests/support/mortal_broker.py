"""A broker that can die in every way, and starts again on what is left of its files.

Nothing happens by itself: no service runs, and the disk gets only what `sync` brings there. So a
run depends on nothing but its steps, and can be repeated.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.build import build_broker
from roquet.broker.settings.config import BrokerConfig
from roquet.store.config import FlushMode, StoreConfig
from tests.support.broker_bed import BrokerBed
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import flusher_of
from tests.support.stores import crash, small_config


class Killed(BaseException):
    """No handler may take it for an error of its own."""


class FatalClock(FakeClock):
    """Kills who looks at it too often. Every append looks once, before it writes anything."""

    def __init__(self) -> None:
        super().__init__()
        self._looks_left: int | None = None

    @property
    def time_ms(self) -> int:
        """For those who are not to be killed."""
        return super().now_ms()

    def kill_after(self, looks: int | None) -> None:
        self._looks_left = looks

    def now_ms(self) -> int:
        if self._looks_left is not None:
            self._looks_left -= 1
            if self._looks_left < 0:
                raise Killed
        return super().now_ms()


class MortalBroker:
    """`settings` are members of BrokerConfig, but for the store."""

    bed: BrokerBed

    def __init__(self, directory: Path, flush_mode: FlushMode, **settings: Any) -> None:
        self._directory = directory
        self._flush_mode = flush_mode
        self._settings = settings
        self._delay_levels_ms: tuple[int, ...] = settings.pop("delay_levels_ms")
        self._generation = 0
        self.clock = FatalClock()
        self._root = self._new_root()
        self._disk = FaultyDisk(self._root)
        self._coming_sync: asyncio.Handle | None = None

    @property
    def broker(self) -> Broker:
        return self.bed.broker

    async def start(self) -> None:
        config = BrokerConfig(store=self._store_config(), broker_name="broker-a")
        self._stack = AsyncExitStack()
        broker = build_broker(
            replace(config, **self._settings), self.clock, self._disk, self._stack
        )
        flusher_of(broker.store).stop()  # `sync` does its work.
        await broker.background.services.__aenter__()
        self.bed = BrokerBed(broker, self.clock)

    async def stop(self) -> None:
        """As an operator stops it."""
        self._forget_sync()
        await self.broker.background.services.__aexit__(None, None, None)
        await self._stack.aclose()

    async def kill(self) -> None:
        """What is written is there, nothing is put in order."""
        self.clock.kill_after(None)
        self._forget_sync()
        await self.broker.background.services.__aexit__(None, None, None)
        self.broker.messages.acks.close()
        crash(self.broker.store)

    async def cut_power(self, seed: int) -> int:
        """Of what is not on disk some may be lost; the end of the log that is not."""
        synced_end = self.broker.store.synced_end
        await self.kill()
        self._root = self._new_root()
        self._disk.cut_power(self._root, Random(seed))
        self._disk = FaultyDisk(self._root)
        return synced_end

    def sync(self) -> None:
        self.broker.store.flush()

    def sync_soon(self) -> None:
        """In sync flush, what is written until the loop goes round is on disk then."""
        if self._flush_mode is FlushMode.SYNC and self._coming_sync is None:
            self._coming_sync = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self._coming_sync = None
        flusher_of(self.broker.store).tick()

    def _forget_sync(self) -> None:
        """The dead do not touch the files of the living."""
        if self._coming_sync is not None:
            self._coming_sync.cancel()
            self._coming_sync = None

    def _new_root(self) -> Path:
        self._generation += 1
        root = self._directory / str(self._generation)
        root.mkdir()
        return root

    def _store_config(self) -> StoreConfig:
        return small_config(
            self._root, flush_mode=self._flush_mode, delay_levels_ms=self._delay_levels_ms
        )
