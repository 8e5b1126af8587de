"""Name server, broker and clients of one schedule, in one process and under virtual time.

The broker is the real one, put together as `serve_broker` does it, on a disk that loses what is not
synced. It dies in every way a process can, and starts again on what is left of its files.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from roquet.broker.broker import Broker
from roquet.broker.replication.master import SlaveLinks
from roquet.broker.server import started
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import SystemClock
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.net.listening import Listener
from roquet.store.config import FlushMode
from roquet.store.errors import StoreError
from roquet.store.flushing import Flusher
from tests.faults.simulation.network import Factory, Listening
from tests.faults.simulation.virtual_loop import START_S, VirtualLoop
from tests.faults.traffic import DELAY_S, ORDERED, SPREAD, TOPIC, Traffic
from tests.support.fake_clock import START_MS
from tests.support.faulty_disk import FaultyDisk, PowerCut
from tests.support.quick_disk import QuickDisk
from tests.support.stores import crash, small_config

HOST: Final = "127.0.0.1"
NAMES_PORT: Final = 9876
BROKER_PORT: Final = 10911
BROKER_NAME: Final = "broker-0"

_ROUND_S_MAX: Final = 0.01
_SLOW_SYNC_S: Final = 0.3
_WATCH_S: Final = 0.2


class WallClock:
    """A clock on a wall, which may be set. Its monotonic side is the loop's."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return START_MS + round((self._loop.now_s - START_S) * 1000) + self.ahead_ms

    def monotonic_s(self) -> float:
        return self._loop.now_s

    def jumped_ms(self) -> int:
        return self.ahead_ms


class DiskOfALife:
    """The disk as one process sees it: what a dead one still does reaches no file."""

    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        if self.is_dead and name != "close":
            raise PowerCut
        return getattr(self._disk, name)


class World:
    """Everything that faults are done to. `flush_mode` is that of the broker."""

    def __init__(self, directory: Path, loop: VirtualLoop, chance: Random) -> None:
        self._directory = directory
        self.chance = chance
        self._generation = 0
        self.loop = loop
        self.network = loop.network
        self.clock = WallClock(loop)
        self.disk = FaultyDisk(self._new_root())
        self._life: DiskOfALife
        self._names = AsyncExitStack()
        self._running: AsyncExitStack | None = None
        self.broker: Broker
        self.traffic: Traffic
        self.life_count = 0
        self._life_began_s = loop.now_s
        self._clock_set_s = -math.inf

    @property
    def name_server(self) -> str:
        return f"{HOST}:{NAMES_PORT}"

    async def open(self) -> None:
        await self.start_names()
        await self.start()

    async def close(self) -> None:
        if self._running is not None:
            await self._running.aclose()
        await self._names.aclose()

    async def start_names(self) -> None:
        config = NameServerConfig(
            host=HOST, port=NAMES_PORT, kv_config_path=self._directory / "names" / "kv.json"
        )
        await self._names.enter_async_context(serve_names(config, self.clock, QuickDisk()))

    async def restart_names(self) -> None:
        await self._names.aclose()
        await self.start_names()

    async def start(self) -> None:
        self._life = DiskOfALife(self.disk)
        self._life_began_s = self.loop.now_s
        if self._clock_set_s > -math.inf:
            self.traffic.history.wait_by_the_wall(self._clock_set_s + DELAY_S)
        config = BrokerConfig(
            store=small_config(
                self.disk.root,
                commit_log_file_size=64 * 1024,
                queue_file_size=4000,
                flush_mode=FlushMode.SYNC,
                delay_levels_ms=(1000,) * 18,
            ),
            broker_name=BROKER_NAME,
            bind_address=HOST,
            advertised_host=HOST,
            listen_port=BROKER_PORT,
            name_servers=(self.name_server,),
            register_interval_ms=5_000,
            register_timeout_ms=1_000,
            transaction_timeout_ms=1_000,
            transaction_check_interval_ms=1_000,
        )
        self.broker, self._running = await started(config, self.clock, self._life)
        # Not before: until now what is committed is what the last one knew.
        self.life_count += 1

    async def stop(self) -> None:
        """As an operator stops it."""
        assert self._running is not None
        running, self._running = self._running, None
        with suppress(StoreError):  # A disk that has failed before raises once more.
            await running.aclose()

    async def kill(self) -> None:
        """What is written is there, nothing is put in order."""
        assert self._running is not None
        self._running = None
        self._life.is_dead = True
        self.network.drop_all_of(BROKER_PORT)
        self.network.drop_all_of(BROKER_PORT - 2)
        broker = self.broker
        for connection in list(broker.registrar._peers._connections.values()):
            connection.abort("dead")
        await broker.background.services.__aexit__(None, None, None)
        broker.messages.long_polls.close()
        broker.messages.acks.close()
        self._life.is_dead = False  # Only to let go of what it holds.
        crash(broker.store)
        self._life.is_dead = True

    async def cut_power(self) -> None:
        """Of what is not on disk some may be lost."""
        await self.kill()
        root = self._new_root()
        self.disk.cut_power(root, self.chance)
        self.disk = FaultyDisk(root)

    def set_clock(self, ahead_ms: int) -> None:
        """Who was accepted in an earlier life goes by the wall from now on, others in the next."""
        self.clock.ahead_ms += ahead_ms
        self._clock_set_s = self.loop.now_s
        self.traffic.history.wait_by_the_wall(self._life_began_s + DELAY_S)

    async def watch_commits(self) -> None:
        """Within one life, what is committed never goes back."""
        committed = self.traffic.history.committed
        while True:
            for group in (SPREAD, ORDERED):
                for queue, offset in self.broker.tables.offsets.queues(group, TOPIC).items():
                    committed[f"{group} in life {self.life_count}", queue].append(offset)
            await asyncio.sleep(_WATCH_S)

    def _new_root(self) -> Path:
        self._generation += 1
        root = self._directory / str(self._generation)
        root.mkdir(parents=True)
        return root


@contextmanager
def simulated(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """While the block runs, nothing here knows of the real world.

    Time is read in one place, so that is where it is replaced. The rounds of the thread that
    flushes become callbacks of the loop.
    """
    clock = WallClock(loop)
    chance = Random(f"{seed} identities")

    async def listen(host: str, port: int, new_protocol: Factory, _: object) -> Listening:
        return loop.network.listen(host, port, new_protocol)

    with ExitStack() as stack:
        for target, name, replacement in (
            (SystemClock, "now_ms", lambda _self: clock.now_ms()),
            (SystemClock, "monotonic_s", lambda _self: clock.monotonic_s()),
            (Flusher, "start", _start_rounds(loop, Random(f"{seed} disk"))),
            (Flusher, "stop", _stop_rounds),
            (Listener, "open", listen),
            # There are no slaves here.
            (SlaveLinks, "start", lambda _self, _config: None),
        ):
            stack.enter_context(patch.object(target, name, replacement))
        stack.enter_context(patch("secrets.randbelow", chance.randrange))
        stack.enter_context(patch("secrets.randbits", chance.getrandbits))
        stack.enter_context(patch("random.random", chance.random))
        stack.enter_context(patch("random.randrange", chance.randrange))
        stack.enter_context(patch("random.choice", chance.choice))
        stack.enter_context(patch("random.sample", chance.sample))
        stack.enter_context(patch("random.getrandbits", chance.getrandbits))
        yield


def _start_rounds(loop: VirtualLoop, chance: Random) -> Callable[[Flusher], None]:
    # Some disks are slow now and then, others always.
    slow_share = chance.choice((0.02, 0.5))

    def start(self: Flusher) -> None:
        self._is_stopping = False

        def round_() -> None:
            if self._is_stopping or self.failure is not None:
                return
            with suppress(PowerCut):
                self._round(self._sync_what_is_due)
            slow = _SLOW_SYNC_S if chance.random() < slow_share else _ROUND_S_MAX
            loop.call_later(chance.uniform(0.0005, slow), round_)

        loop.call_soon(round_)

    return start


def _stop_rounds(self: Flusher) -> None:
    self._is_stopping = True


Fault = Callable[[World], Awaitable[None]]


async def cut_connections(world: World) -> None:
    world.network.cut_some()


async def lose_packets(world: World) -> None:
    world.network.lost = 0.05
    await asyncio.sleep(world.chance.uniform(0.5, 3))
    world.network.lost = 0.0


async def be_late(world: World) -> None:
    world.network.late = 0.8
    await asyncio.sleep(world.chance.uniform(0.5, 3))
    world.network.late = 0.05


async def go_silent(world: World) -> None:
    """The broker is there, but cut off from the network."""
    world.network.silent.add((HOST, BROKER_PORT))
    await asyncio.sleep(world.chance.uniform(0.2, 6))
    world.network.silent.clear()


async def kill(world: World) -> None:
    await world.kill()
    await asyncio.sleep(world.chance.uniform(0, 2))
    await world.start()


async def cut_power(world: World) -> None:
    await world.cut_power()
    await asyncio.sleep(world.chance.uniform(0, 2))
    await world.start()


async def restart(world: World) -> None:
    await world.stop()
    await asyncio.sleep(world.chance.uniform(0, 2))
    await world.start()


async def fail_a_sync(world: World) -> None:
    """A broker that cannot trust its disk any more ends, and is started again."""
    world.disk.fail_next_sync()
    try:
        async with asyncio.timeout(2):
            await world.broker.messages.acks.has_failed.wait()
    except TimeoutError:
        world.disk.fail_next_sync(0)
        return  # It was a file in the making, or a table: that costs no message.
    await world.kill()
    await world.start()


async def restart_names(world: World) -> None:
    await world.restart_names()


async def set_the_clock(world: World) -> None:
    """The wall clock of the broker is set, forward or back."""
    hours = world.chance.choice((-24, -1, 1, 24))
    world.set_clock(hours * 3_600_000)


async def replace_members(world: World) -> None:
    """What they have committed is where others go on."""
    for group in (SPREAD, ORDERED):
        await world.traffic.replace(group)


async def add_a_member(world: World) -> None:
    """A second one reads in order for a while: each queue has to pass from hand to hand."""
    member = await world.traffic.join(ORDERED)
    await asyncio.sleep(world.chance.uniform(1, 4))
    await world.traffic.leave(member)


FAULTS: Final[tuple[Fault, ...]] = (
    cut_connections,
    cut_connections,
    lose_packets,
    be_late,
    go_silent,
    kill,
    kill,
    cut_power,
    cut_power,
    restart,
    fail_a_sync,
    restart_names,
    replace_members,
    set_the_clock,
)
