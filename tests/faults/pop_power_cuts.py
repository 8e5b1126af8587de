"""Power fails under a broker whose messages are popped, on a device that remembers every write.

Clients work once, and many cuts are made in the record of what the device got meanwhile. A broker
is started on what each cut has left, and everything is popped from it. Whatever it does not hand
out, and is not done, it has to know as in flight: times that were changed to an hour are not over.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Final, NamedTuple

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import WaitingMessages
from roquet.protocol.codes import RequestCode, ResponseCode
from tests.faults.findings import Findings
from tests.faults.history import History
from tests.faults.invisibility import Invisibility, Outing
from tests.faults.pop_faults import (
    ASYNC,
    BROKER_NAME,
    QUEUE_COUNT,
    SYNC,
    broker_settings,
    pop_stage,
)
from tests.faults.pop_traffic import TOPIC, PopGroup, PopMix, PopTraffic
from tests.faults.rig import Rig
from tests.faults.whole_queues import whole_queues
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import happens
from tests.support.our_cluster import OurBroker, OurServerFailed
from tests.support.popped import Popped, ack_header, pop_header, topic_of
from tests.support.recorded_device import (
    Event,
    Platter,
    RecordedDevice,
    loop_device,
    make_file_system,
    missing,
    mounted,
)

_DEVICE_SIZE: Final = 64 << 20
_CUTS_PER_RECORD: Final = 25
_ACKS_PER_RECORD: Final = 400
_MIX: Final = PopMix(shelved_share=0.05)
# flushIntervalCommitLog, and the time that a sync and its thread take on a busy machine.
_WINDOW_S: Final = 0.5 + 1.0
# Nothing that was popped comes again meanwhile.
_LONG_MS: Final = 600_000
_POLL_MS: Final = 200
_PATIENCE_S: Final = 15.0


class Record(NamedTuple):
    traffic: PopTraffic
    events: list[Event]
    # Before it no client was served yet.
    first: int
    flush_mode: str

    def known_at(self, at_s: float) -> "Promised":
        by_s = at_s if self.flush_mode == SYNC else at_s - _WINDOW_S
        history = self.traffic.history
        sent = {body for body, s in self.traffic.sent_s.items() if s < by_s}
        return Promised(
            History(
                attempted=history.attempted,
                acknowledged=[each for each in history.acknowledged if each.ended_s < by_s],
            ),
            sent,
            {group: each.known_at(at_s, by_s) for group, each in self.traffic.promises.items()},
        )


class Promised(NamedTuple):
    """What clients could rely on when power failed."""

    history: History
    sent: set[bytes]
    groups: dict[PopGroup, Invisibility]

    @property
    def acked_count(self) -> int:
        return sum(len(each.acked_s) for each in self.groups.values())


def cut(directory: Path, seed: int, count: int) -> Findings:
    """Half of the cuts with each way of flushing."""
    findings = Findings()
    for mode, share in ((SYNC, count - count // 2), (ASYNC, count // 2)):
        findings.add(cut_under(directory / mode, mode, seed, share))
    return findings


def cut_under(
    directory: Path, mode: str, seed: int, count: int, broker_under: tuple[str, ...] = ()
) -> Findings:
    chance = Random(seed)
    findings = Findings()
    for begun in range(0, count, _CUTS_PER_RECORD):
        place = directory / f"record-{begun}"
        place.mkdir(parents=True)
        record = asyncio.run(_recorded(place, chance, mode, broker_under))
        findings.add(_cuts(place, record, chance, min(_CUTS_PER_RECORD, count - begun)))
        rmtree(place)
    return findings


async def _recorded(
    directory: Path, chance: Random, mode: str, broker_under: tuple[str, ...]
) -> Record:
    with RecordedDevice(directory, _DEVICE_SIZE) as device:
        make_file_system(str(device.path))
        with mounted(str(device.path), directory / "disk") as disk:
            async with pop_stage(
                directory,
                chance,
                mode,
                mix=_MIX,
                broker_directory=disk / "broker",
                broker_under=broker_under,
            ) as on:
                first = len(device.events)
                await on.traffic.until_more(_ACKS_PER_RECORD)
                on.broker.kill()
                return Record(on.traffic, device.events.copy(), first, mode)


def _cuts(directory: Path, record: Record, chance: Random, count: int) -> Findings:
    platter = Platter(_DEVICE_SIZE, record.events)
    findings = Findings()
    positions = sorted(chance.sample(range(record.first, len(record.events)), count))
    for number, position in enumerate(positions):
        image = directory / "image"
        image.write_bytes(platter.cut_at(position, chance))
        promised = record.known_at(record.events[position].at_s)
        with loop_device(image) as device, mounted(device, directory / "found") as disk:
            violations = _after_cut(disk / "broker", record.flush_mode, promised)
        findings.violations += [
            f"{record.flush_mode}, cut {number} at {position}: {each}" for each in violations
        ]
        findings.counts["power cuts"] += 1
        findings.counts["sent, over all cuts"] += len(promised.sent)
        findings.counts["acks answered, over all cuts"] += promised.acked_count
    return findings


def _after_cut(directory: Path, mode: str, promised: Promised) -> list[str]:
    broker = OurBroker(directory, broker_name=BROKER_NAME, configuration=broker_settings(mode))
    try:
        broker.start()
    except OurServerFailed as error:
        return [str(error)]
    try:
        found = promised.history.found = whole_queues(broker, TOPIC, QUEUE_COUNT)
        violations = promised.history.violations()
        read = {body for bodies in found.values() for body in bodies.values()}
        violations += [f"I1: {body!r} is lost" for body in sorted(promised.sent - read)]
        with BlockingPeer(broker.address) as peer:
            for group, known in promised.groups.items():
                violations += _after_popping(peer, group, known, promised.sent & read)
    finally:
        broker.kill()
    return violations


def _after_popping(
    peer: BlockingPeer, group: PopGroup, known: Invisibility, owed: set[bytes]
) -> list[str]:
    """What is not done comes, or is in flight."""

    def is_over() -> bool:
        return not _pop(peer, group, known) and _missing_count(peer, known, owed) <= 0

    happens(is_over, _PATIENCE_S)
    lost = known.undone(owed) if _missing_count(peer, known, owed) > 0 else ()
    return list(known.violations(lost))


def _missing_count(peer: BlockingPeer, known: Invisibility, owed: set[bytes]) -> int:
    """Of messages that are neither done nor in flight."""
    reply = peer.call(RequestCode.GET_WAITING_MESSAGES)
    in_flight = read_body(WaitingMessages, reply.body).in_flight.get(known.group)
    return len(known.undone(owed)) - (0 if in_flight is None else in_flight.count)


def _pop(peer: BlockingPeer, group: PopGroup, known: Invisibility) -> Sequence[bytes]:
    """Pops and acknowledges what there is now."""
    header = pop_header(
        consumer_group=group.name,
        topic=TOPIC,
        order=group.is_ordered,
        invisible_time=_LONG_MS,
        poll_time=_POLL_MS,
    )
    popped = Popped(peer.call(RequestCode.POP_MESSAGE, header), BROKER_NAME)
    now_s = time.monotonic()
    for body, receipt in zip(popped.bodies, popped.receipts, strict=True):
        outing = Outing(body, now_s, [(now_s, now_s + _LONG_MS / 1000)])
        known.receive([outing])
        known.begin_ack(outing, now_s)
        topic = topic_of(receipt, group.name, TOPIC)
        ack = ack_header(receipt, consumer_group=group.name, topic=topic)
        reply = peer.call(RequestCode.ACK_MESSAGE, ack)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
    return popped.bodies


POP_POWER_CUT: Final = Rig(
    "pop-power-cut",
    "power fails while messages are popped and acknowledged by remoting and gRPC, sync and async",
    cut,
    few=4,
    many=300,
    missing=missing,
)
