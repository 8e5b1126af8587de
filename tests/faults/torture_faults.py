"""What is done to brokers of one name while everything else goes on: the faults of `torture`.

A fault changes who is master, or tries to; a nuisance goes on beside it. Where an operator decides,
she does what docs/replication.md says, and makes nobody the master that has not all of the log.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from random import Random
from typing import Final

from tests.faults.replica_sets import LEASE_S, CommandRefused, Replica, ReplicaSet, paused
from tests.support.etcd_members import leader_of
from tests.support.eventually import happens

# Brokers that are starved run for so long at a time, and stand still for so long.
_RUN_S: Final = (0.02, 0.1)
_STAND_STILL_S: Final = (0.05, 0.3)
_PAUSED_S: Final = (0.5, 3.0 * LEASE_S)
_AWAY_S: Final = (0.0, 2.0 * LEASE_S)
_BACK_S_MAX: Final = 15.0
_STEP_DOWN_S_MAX: Final = 20.0
_OWN_FILE_CHANCE: Final = 0.5


class NoSwitch(Exception):
    """What has to follow a fault did not; the message says what."""


Fault = Callable[[ReplicaSet, Random], Awaitable[None]]
Nuisance = Callable[[ReplicaSet, Random], AbstractAsyncContextManager[None]]


async def current_master(on: ReplicaSet) -> Replica:
    """Raises NoSwitch."""
    master = await asyncio.to_thread(on.master)
    if master is None:
        raise NoSwitch("there is no master")
    return master


# Where an operator decides.


async def demoted_and_promoted(on: ReplicaSet, _chance: Random) -> None:
    """A planned switch."""
    master = await current_master(on)
    await asyncio.to_thread(_commanded, on.demote, master, "--id", _own_id(on, master))
    await asyncio.to_thread(_promote_longest, on, master)


async def killed_for_good(on: ReplicaSet, chance: Random) -> None:
    master = await current_master(on)
    await asyncio.to_thread(master.kill)
    await _succeeded(on, master, chance)


async def stopped_and_fenced(on: ReplicaSet, chance: Random) -> None:
    """It stands still and is taken for dead; before anybody is promoted it is made so."""
    master = await current_master(on)
    with master.paused():
        await asyncio.sleep(chance.uniform(*_PAUSED_S))
        await asyncio.to_thread(master.kill)
    await _succeeded(on, master, chance)


async def _succeeded(on: ReplicaSet, old: Replica, chance: Random) -> None:
    """Another one is promoted, and the old one comes back as a slave, one way or the other."""
    await asyncio.to_thread(_promote_longest, on, old)
    await asyncio.sleep(chance.uniform(*_AWAY_S) / 2)
    number = _own_id(on, old)
    if chance.random() < _OWN_FILE_CHANCE:
        old.set(brokerRole="SLAVE", brokerId=number)
    old.begin()
    await asyncio.to_thread(_made_slave, on, old, number)


def _made_slave(on: ReplicaSet, old: Replica, number: str) -> None:
    """As the runbook has it: demoted by force where it takes itself for the master."""
    happens(lambda: old.has_ended or old.runtime_info, _BACK_S_MAX)
    if old.has_ended:
        old.kill()
        old.set(brokerRole="SLAVE", brokerId=number)
        old.start()
    happens(lambda: old.is_master or old.runtime_info.get("followedMaster"), _BACK_S_MAX)
    if old.is_master:
        _commanded(on.demote, old, "--force", "--id", number)


def _own_id(on: ReplicaSet, broker: Replica) -> str:
    """Of each its own whenever it is a slave; the first one began as the master, without any."""
    return str(on.brokers.index(broker) or len(on.brokers))


def _promote_longest(on: ReplicaSet, old: Replica) -> None:
    """Not before all slaves have answered: one that is slow may have what the others lack.

    Raises NoSwitch.
    """
    slaves = [each for each in on.brokers if each is not old and not each.has_ended]
    ends: dict[Replica, int] = {}

    def is_known() -> bool:
        ends.update((each, each.log_end) for each in slaves)
        return min(ends.values()) >= 0

    if not happens(is_known):
        raise NoSwitch(f"not all slaves report the end of their log: {ends.values()}")
    _commanded(on.promote, max(ends, key=lambda each: ends[each]))


def _commanded(command: Callable[..., str], *words: object) -> None:
    """A slave may take a moment to notice that its master is gone. Raises NoSwitch."""
    refusals: list[str] = []

    def is_done() -> bool:
        try:
            command(*words)
        except CommandRefused as error:
            refusals.append(str(error))
            return False
        return True

    if not happens(is_done, _STEP_DOWN_S_MAX):
        raise NoSwitch(refusals[-1])


# Where etcd does.


async def killed(on: ReplicaSet, chance: Random) -> None:
    master = await current_master(on)
    await asyncio.to_thread(master.kill)
    await asyncio.sleep(chance.uniform(*_AWAY_S))
    await asyncio.to_thread(master.start)


async def two_killed(on: ReplicaSet, chance: Random) -> None:
    """The second as soon as it is the master."""
    first = await current_master(on)
    await asyncio.to_thread(first.kill)
    second = await asyncio.to_thread(on.master, _AWAY_S[1] + LEASE_S, first)
    await asyncio.to_thread(first.start)
    if second is not None:
        await asyncio.to_thread(second.kill)
        await asyncio.sleep(chance.uniform(*_AWAY_S))
        await asyncio.to_thread(second.start)


async def stopped(on: ReplicaSet, chance: Random) -> None:
    """It wakes up before or after its lease has ended."""
    master = await current_master(on)
    with master.paused():
        await asyncio.sleep(chance.uniform(*_PAUSED_S))


async def demoted(on: ReplicaSet, _chance: Random) -> None:
    """A planned switch; the master refuses if no slave has all of its log."""
    master = await current_master(on)
    with suppress(CommandRefused):
        await asyncio.to_thread(on.demote, master)


async def etcd_killed(on: ReplicaSet, chance: Random) -> None:
    """Its leader, or all of it where there is one member only; the master is killed, too."""
    leader = await asyncio.to_thread(leader_of, on.etcd)
    master = await current_master(on)
    await asyncio.to_thread(leader.kill)
    await asyncio.to_thread(master.kill)
    await asyncio.sleep(chance.uniform(*_AWAY_S))
    leader.start()
    await asyncio.to_thread(master.start)


async def etcd_paused(on: ReplicaSet, chance: Random) -> None:
    """For longer than a lease: no master may acknowledge."""
    living = [each for each in on.etcd if each.is_running]
    member = chance.choice([await asyncio.to_thread(leader_of, living), *living])
    with member.paused():
        await asyncio.sleep(chance.uniform(*_PAUSED_S))


# Beside them.


@asynccontextmanager
async def calm(_on: ReplicaSet, _chance: Random) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def starved(on: ReplicaSet, chance: Random) -> AsyncIterator[None]:
    """Brokers run a little at a time, each at its own."""
    tasks = [asyncio.create_task(_starve(each, chance)) for each in on.brokers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _starve(broker: Replica, chance: Random) -> None:
    while True:
        await asyncio.sleep(chance.uniform(*_RUN_S))
        process_id = broker.living_process_id
        if process_id is None:
            continue
        with paused(process_id):
            await asyncio.sleep(chance.uniform(*_STAND_STILL_S))


@asynccontextmanager
async def crowded(_on: ReplicaSet, _chance: Random) -> AsyncIterator[None]:
    """As many busy processes as there are cores, none of them nicer than the brokers."""
    with ExitStack() as hogs:
        for _ in range(os.cpu_count() or 1):
            hogs.enter_context(_hog())
        yield


@contextmanager
def _hog() -> Iterator[None]:
    with subprocess.Popen((sys.executable, "-c", "while True: pass")) as process:
        try:
            yield
        finally:
            process.kill()


@asynccontextmanager
async def without_an_etcd(on: ReplicaSet, chance: Random) -> AsyncIterator[None]:
    """One member of three is gone; of one it would be all."""
    member = chance.choice(on.etcd)
    member.kill()
    try:
        yield
    finally:
        member.start()


BY_HAND: Final[dict[str, Fault]] = {
    "planned switches": demoted_and_promoted,
    "masters killed for good": killed_for_good,
    "masters stopped and fenced": stopped_and_fenced,
}
WITH_ETCD: Final[dict[str, Fault]] = {
    "planned switches": demoted,
    "masters killed": killed,
    "times two masters killed in a row": two_killed,
    "masters stopped": stopped,
    "masters killed with an etcd": etcd_killed,
    "etcd paused": etcd_paused,
}
EVERYWHERE: Final[dict[str, Nuisance]] = {
    "calm": calm,
    "of them with starved brokers": starved,
    "of them on a busy machine": crowded,
}
WITH_THREE_ETCD: Final[dict[str, Nuisance]] = {
    **EVERYWHERE,
    "of them without a member of etcd": without_an_etcd,
}
