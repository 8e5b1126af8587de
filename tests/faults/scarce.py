"""A process runs out of what the system gives it, descriptors or mappings, while queues grow.

More queues are written to at once than files can be open. Messages for the others are refused and
taken later; nothing else is refused, and an operator of the machine itself always gets an answer.
"""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.stage import ONLY_PLAIN, Stage, stage
from tests.support.common_requests import common_send
from tests.support.few_maps import few_maps_left, map_count, map_limit
from tests.support.raw_peer import RawPeer
from tests.support.topics import create_topic

_DESCRIPTORS: Final = 512
_BURST_QUEUES: Final = 1_000
# What memory keeps, what a broker has without queues, and some for queues.
_MAPS_LEFT: Final = 4096 + 700
# Less than this, and an allocation that fails may end the process.
_MAPS_LEFT_MIN: Final = 3500
# A quiet broker answers in milliseconds; on two cores that others use, files are made meanwhile.
_ANSWER_S_MAX: Final = 10.0
_AT_ONCE: Final = 100
_TAKEN_S_MAX: Final = 120.0
_PAUSE_S: Final = 0.1


def burst_without_descriptors(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_burst(directory, seed, count, descriptors=_DESCRIPTORS))


def burst_without_maps(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_burst(directory, seed, count, under=few_maps_left(_MAPS_LEFT)))


async def _burst(
    directory: Path,
    seed: int,
    count: int,
    *,
    descriptors: int | None = None,
    under: tuple[str, ...] = (),
) -> Findings:
    async with stage(directory, seed, mix=ONLY_PLAIN, broker_under=under) as on:
        process = on.broker.process_id
        if descriptors is not None:
            hard = resource.prlimit(process, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(process, resource.RLIMIT_NOFILE, (descriptors, hard))
        await on.traffic.until_more()
        refused_count = 0
        async with _operator(on) as answer_times_s:
            for number in range(count):
                create_topic(on.broker.address, f"burst-{number}", _BURST_QUEUES)
                refused_count += await _send_to_all(on, f"burst-{number}")
        await on.traffic.until_more()
        violations = [] if refused_count else ["nothing was scarce: no send was refused"]
        maps_left = map_limit() - map_count(process)
        if maps_left < _MAPS_LEFT_MIN:
            violations.append(f"{maps_left} mappings are left, and memory may need more")
        findings = await on.finished()
    findings.violations += violations
    findings.counts["bursts"] = count
    findings.counts["refused for now"] = refused_count
    findings.figures["mappings left"] = maps_left
    findings.figures["slowest answer to an operator s"] = max(answer_times_s)
    if max(answer_times_s) > _ANSWER_S_MAX:
        findings.violations.append(f"an operator waited {max(answer_times_s):.1f} s")
    return findings


async def _send_to_all(on: Stage, topic: str) -> int:
    """One message to each queue, again until it is taken; how many were refused on the way."""
    left = list(range(_BURST_QUEUES))
    refused_count = 0
    async with asyncio.timeout(_TAKEN_S_MAX), await RawPeer.connect(_port_of(on)) as peer:
        while left:
            refused = []
            for start in range(0, len(left), _AT_ONCE):
                some = left[start : start + _AT_ONCE]
                peer.send(*(common_send(topic, b"x", each, opaque=each) for each in some))
                replies = [await peer.receive() for _ in some]
                refused += [each.opaque for each in replies if _is_refused(each)]
            refused_count += len(refused)
            left = refused
    return refused_count


def _is_refused(reply: Command) -> bool:
    assert reply.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY), reply.remark
    return reply.code == ResponseCode.SYSTEM_BUSY


@asynccontextmanager
async def _operator(on: Stage) -> AsyncIterator[list[float]]:
    """Connects to the broker again and again; how long each answer took."""
    times_s: list[float] = []

    async def ask() -> None:
        while True:
            begin_s = time.monotonic()
            async with await RawPeer.connect(_port_of(on)) as operator:
                reply = await operator.ask(Command(RequestCode.GET_BROKER_RUNTIME_INFO))
            assert reply.code == ResponseCode.SUCCESS, reply.remark
            times_s.append(time.monotonic() - begin_s)
            await asyncio.sleep(_PAUSE_S)

    asking = asyncio.create_task(ask())
    try:
        yield times_s
    finally:
        asking.cancel()
        # A connection that was refused or reset is raised here.
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()


def _port_of(on: Stage) -> int:
    return int(on.broker.address.rpartition(":")[2])


QUEUE_BURST: Final = Rig(
    "queue-burst",
    "messages to 1,000 queues at once, of a broker with 512 descriptors",
    burst_without_descriptors,
    few=1,
    many=100,
)
MAPS: Final = Rig(
    "maps",
    "messages to 1,000 queues at once, of a broker with hardly a mapping left",
    burst_without_maps,
    few=1,
    many=100,
)
