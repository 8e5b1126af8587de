"""Peers that mean no good, or mean nothing at all: others do not notice, and nothing is lost."""

import asyncio
import resource
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.stage import QUEUE_COUNT, Stage, stage
from tests.faults.traffic import TOPIC
from tests.support.common_requests import common_pull
from tests.support.golden_frames import golden_frames
from tests.support.hostile_bytes import hostile_bytes
from tests.support.http_asking import asked
from tests.support.our_cluster import OurBroker
from tests.support.ports import free_port
from tests.support.process_memory import resident_size
from tests.support.raw_peer import RawPeer

_MEGABYTE: Final = 1 << 20
# What a broker with clients at work may grow by, whoever else is there.
_GROWTH_MAX: Final = 96 * _MEGABYTE
# Frames of one connection; the first that is not understood ends it.
_FRAMES_PER_PEER: Final = 20
_DESCRIPTORS: Final = 256
_PULLS_UNREAD: Final = 200
# More than there are places for pages.
_SILENT_PEERS: Final = 300
_PAUSE_S: Final = 0.1
_GOOD_PAGE: Final = b"HTTP/1.1 200 "


def be_hostile(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_be_hostile(directory, seed, count))


async def _be_hostile(directory: Path, seed: int, count: int) -> Findings:
    chance = Random(seed)
    seeds = [frame.data for frame in golden_frames()]
    async with stage(directory, seed) as on:
        await on.traffic.until_more()
        size = resident_size(on.broker.process_id)
        for _ in range(0, count, _FRAMES_PER_PEER):
            with suppress(ConnectionError):
                async with await RawPeer.connect(_port_of(on.broker)) as peer:
                    for _ in range(_FRAMES_PER_PEER):
                        peer.send(hostile_bytes(chance, seeds))
                    await peer.until_sent()
        await on.traffic.until_more()
        findings = await _settled(on, size)
    findings.counts["hostile frames"] = count
    return findings


def stop_reading(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_stop_reading(directory, seed, count))


async def _stop_reading(directory: Path, seed: int, count: int) -> Findings:
    """Each asks for everything, again and again, and reads nothing of it."""
    chance = Random(seed)
    async with stage(directory, seed) as on:
        await on.traffic.until_more(500)
        size = resident_size(on.broker.process_id)
        peers = []
        for _ in range(count):
            with suppress(ConnectionError):
                peer = await RawPeer.connect(_port_of(on.broker))
                peers.append(peer)
                peer.stop_reading()
                for _ in range(_PULLS_UNREAD):
                    peer.send(common_pull(TOPIC, chance.randrange(QUEUE_COUNT), 0))
            await on.traffic.until_more(5)
        await on.traffic.until_more(500)
        findings = await _settled(on, size)
        for peer in peers:
            peer.close()
    findings.counts["stopped readers"] = count
    return findings


def take_descriptors(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_take_descriptors(directory, seed, count))


async def _take_descriptors(directory: Path, seed: int, count: int) -> Findings:
    """Silent peers take all the connections there are, and more."""
    async with stage(directory, seed) as on:
        await on.traffic.until_more()
        size = resident_size(on.broker.process_id)
        hard = resource.prlimit(on.broker.process_id, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(on.broker.process_id, resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))
        for _ in range(count):
            peers = []
            for _ in range(2 * _DESCRIPTORS):
                with suppress(ConnectionError):
                    peers.append(await RawPeer.connect(_port_of(on.broker)))
            # Files of the log and of queues are made meanwhile.
            await on.traffic.until_more(500)
            for peer in peers:
                peer.close()
            await on.traffic.until_more()
        findings = await _settled(on, size)
    findings.counts["times without descriptors"] = count
    return findings


def keep_pages_busy(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_keep_pages_busy(directory, seed, count))


async def _keep_pages_busy(directory: Path, seed: int, count: int) -> Findings:
    """More connections than are allowed stay silent, and reconnect when they are closed."""
    port = free_port()
    pages = {"httpListen": f"127.0.0.1:{port}"}
    async with stage(directory, seed, configuration=pages) as on:
        await on.traffic.until_more()
        size = resident_size(on.broker.process_id)
        first = [await RawPeer.connect(port) for _ in range(_SILENT_PEERS)]
        silent = [asyncio.create_task(_say_nothing(port, each)) for each in first]
        failed = 0
        for _ in range(count):
            for path in ("/health", "/ready"):
                failed += not await _is_answered(port, path)
        for each in silent:
            each.cancel()
        await asyncio.wait(silent)
        await on.traffic.until_more()
        findings = await _settled(on, size)
    findings.counts["probes"] = 2 * count
    if failed:
        findings.violations.append(f"{failed} of {2 * count} probes were not answered")
    return findings


async def _say_nothing(port: int, peer: RawPeer) -> None:
    """Comes again whenever it is cut off."""
    while True:
        async with peer:
            await peer.until_closed()
        await asyncio.sleep(_PAUSE_S)
        peer = await RawPeer.connect(port)


async def _is_answered(port: int, path: str) -> bool:
    return (await asked(port, f"GET {path} HTTP/1.1\r\n\r\n".encode())).startswith(_GOOD_PAGE)


async def _settled(on: Stage, size: int) -> Findings:
    growth = resident_size(on.broker.process_id) - size
    findings = await on.finished()
    findings.figures["grown by MB"] = growth / _MEGABYTE
    if growth > _GROWTH_MAX:
        findings.violations.append(f"the broker has grown by {growth:,} bytes")
    return findings


def _port_of(broker: OurBroker) -> int:
    return int(broker.address.rpartition(":")[2])


PAGES: Final = Rig(
    "pages",
    "300 peers of the port for pages (--http) that stay silent",
    keep_pages_busy,
    few=60,
    many=10_000,
)
HOSTILE_BYTES: Final = Rig(
    "hostile-bytes", "recorded frames with mistakes in them", be_hostile, few=2_000, many=500_000
)
STOPPED_READERS: Final = Rig(
    "stopped-readers", "peers that ask for everything and read nothing", stop_reading, 10, 500
)
DESCRIPTORS: Final = Rig(
    "descriptors",
    "silent peers take all descriptors of a broker that has 256",
    take_descriptors,
    few=1,
    many=50,
)
