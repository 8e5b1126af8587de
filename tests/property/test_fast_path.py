"""The fast path and the handlers say and store the same, whatever arrives in whatever pieces.

Two brokers with one clock get the same bytes, and the same happens to them in between; only one of
them has the fast path. Every byte they answer and every byte of their logs, queues and indexes
is equal, and so is what they count, remember and wake.
"""

import asyncio
import base64
import errno
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.pop.in_flight import CheckPoint
from roquet.broker.pop.journal import POP_COUNT_MAX
from roquet.broker.tables.statistics import Statistics
from roquet.broker.tables.tally import Tally
from roquet.net.limits import ConnectionLimits
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.frame import Frame
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.names import dlq_topic
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.errors import StoreUnavailable
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import FakeClock
from tests.support.fast_path_traffic import (
    GROUPS,
    QUEUE_IDS,
    TOPICS,
    any_frames,
    command,
    frame_of,
    heartbeat,
    hostile_bytes,
    pop_fields,
    send_fields,
)
from tests.support.inner_parts import index_of, log_of, queues_of
from tests.support.late_disk import stop_disk, sync_disk
from tests.support.ram_disk import RamDisk
from tests.support.stores import small_config

ROOT = Path("/store")
LIMITS = ConnectionLimits(unread_size_high=20_000, deferred_count_max=12)
LARGE_FILES = {"commit_log_file_size": 1 << 20, "queue_file_size": 20_000}

# What is counted by the way it takes, and how much of it has to take the fast one. With sync flush
# no pop and no ack does.
KINDS = ("sends", "pulls", "pops", "acks", "batch_acks")
TAKEN_SHARE_MIN = {"sends": 0.25, "pulls": 0.25, "pops": 0.1, "acks": 0.1, "batch_acks": 0.1}


# Of batches of acks: the last of a pop, all but the last, all, and one more.
BITS = (b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x01")


# Everything of a queue, as far as one pull may bring it.
PULL_OF_MANY = {
    "consumerGroup": GROUPS[0],
    "topic": TOPICS[0],
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "2147483647",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
    "expressionType": "TAG",
    "subscription": "*",
}


class TightDisk(RamDisk):
    is_full = False

    def create(self, path: Path, size: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create(path, size)

    def allocate(self, descriptor: int, start: int, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, start, size)


class RawClient(BedClient):
    """Keeps all bytes that it receives."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.received = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += data

    def get_write_buffer_size(self) -> int:
        return 0


class Twin:
    """One of the two brokers."""

    def __init__(self, bed: BrokerBed, disk: TightDisk, *, has_fast_path: bool) -> None:
        self.bed = bed
        self.broker = bed.broker
        self.disk = disk
        self.clients = []
        for port in (50_001, 50_002):
            client = RawClient(port)
            self.clients.append(client)
            bed.attach(client, LIMITS, has_fast_path=has_fast_path)

    def receive(self, number: int, data: bytes) -> None:
        if not self.clients[number].is_closed:
            self.clients[number].connection.data_received(data)


Event = Callable[[Twin], None]


def arrival(number: int, data: bytes) -> Event:
    return lambda twin: twin.receive(number, data)


def topic_change(name: str, queue_count: int, perm: int, *, is_ordered: bool, kind: str) -> Event:
    settings = TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        perm=perm,
        order=is_ordered,
        topic_filter_type=kind,
    )
    return lambda twin: void(twin.broker.tables.topics.update(settings))


def deletion(name: str) -> Event:
    def delete(twin: Twin) -> None:
        if twin.disk.is_full:
            return  # It could not be made sure of.
        twin.broker.tables.topics.delete(name)
        twin.broker.store.delete_topic(name)
        settings = TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)
        twin.broker.tables.topics.update(settings)

    return delete


def config_change(**changes: object) -> Event:
    def change(twin: Twin) -> None:
        twin.broker.config = replace(twin.broker.config, **changes)

    return change


def group_change(name: str, *, may_consume: bool) -> Event:
    def change(twin: Twin) -> None:
        group = twin.broker.tables.groups.find_or_create(name, may_create=True)
        twin.broker.tables.groups.update(replace(group, consume_enable=may_consume))

    return change


def reset(group: str, topic: str) -> Event:
    return lambda twin: twin.broker.tables.offsets.reset(group, topic, 0, 1)


def fill_disk(twin: Twin) -> None:
    twin.disk.is_full = not twin.disk.is_full


def sync(twin: Twin) -> None:
    sync_disk(twin.bed)


def pass_time(twin: Twin) -> None:
    twin.bed.clock.advance(1.5)
    twin.broker.statistics.tick()


def clean(twin: Twin) -> None:
    with suppress(StoreUnavailable):
        twin.broker.store.clean()


def void(_result: object) -> None:
    pass


changes: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        topic_change,
        st.sampled_from(TOPICS),
        st.sampled_from([4, 4, 2, 1]),
        st.sampled_from([6, 6, 6, 4, 2]),
        is_ordered=st.sampled_from([False, False, False, True]),
        kind=st.sampled_from(["SINGLE_TAG", "SINGLE_TAG", "MULTI_TAG"]),
    ),
    st.builds(deletion, st.sampled_from(TOPICS)),
    st.builds(config_change, permission=st.sampled_from([6, 6, 4, 2])),
    st.builds(config_change, accept_sends_from_ms=st.sampled_from([0, 0, 2**50])),
    st.builds(
        group_change, st.sampled_from(GROUPS), may_consume=st.sampled_from([True, True, False])
    ),
    st.builds(reset, st.sampled_from(GROUPS), st.sampled_from(TOPICS)),
    st.sampled_from([fill_disk, sync, sync, sync, pass_time, clean]),
)


def send_back(topic: str, queue_id: str, index: int, fields: Mapping[str, object]) -> Event:
    """Of a message that is there, or of bytes beside it."""

    def send(twin: Twin) -> None:
        entries = twin.broker.store.entries(topic, int(queue_id), 0, 100)
        offset = entries[index % len(entries)].physical_offset if entries else 0
        whole = {"offset": str(offset + (index == 0)), **fields}
        twin.receive(0, frame_of(command(36, whole, index)))

    return send


send_backs = st.builds(
    send_back,
    st.sampled_from([*TOPICS, "SCHEDULE_TOPIC_XXXX", *map(dlq_topic, GROUPS)]),
    st.sampled_from(QUEUE_IDS),
    st.integers(0, 50),
    st.fixed_dictionaries(
        {
            "group": st.sampled_from([*GROUPS, *GROUPS, "new", ""]),
            "delayLevel": st.sampled_from(["1", "1", "1", "0", "2", "99", "-1", "-1", "x"]),
        },
        optional={
            "maxReconsumeTimes": st.sampled_from(["16", "0", "1"]),
            "originTopic": st.just("any"),
            "unitMode": st.sampled_from(["false", "true", "x"]),
        },
    ),
)


def single_acks(
    indexes: Sequence[tuple[int, int]], changes: Mapping[str, object], code_after: int
) -> Event:
    """Of messages that are out, one by one, and another request after them."""

    def send(twin: Twin) -> None:
        points = twin.broker.waiting.pops.in_flight.points()
        frames = [
            frame_of(
                command(200_051, {**ack_fields(points[one % len(points)], nth), **changes}, nth)
            )
            for one, nth in indexes
            if points
        ]
        last = frame_of(command(code_after, {"bname": "broker-a"}, 7), b'{"acks":[]}')
        twin.receive(1, b"".join([*frames, last]))

    return send


def ack_fields(point: CheckPoint, nth: int) -> dict[str, object]:
    (group, topic, queue_id), start_offset, pop_time_ms = point.key
    offset = start_offset + nth
    times = f"{pop_time_ms} {point.invisible_ms}"
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "extraInfo": f"{start_offset} {times} 0 0 broker-a {queue_id} {offset}",
        "offset": str(offset),
    }


def batch_ack(indexes: Sequence[int], bits: bytes, changes: Mapping[str, object]) -> Event:
    """Of messages that are out, if there are any, or of others."""

    def send(twin: Twin) -> None:
        points = twin.broker.waiting.pops.in_flight.points()
        chosen = [points[index % len(points)] for index in indexes if points]
        acks = [{**acked(point, bits), **changes} for point in chosen]
        body = json.dumps({"acks": acks, "brokerName": "broker-a"}).encode()
        fields: dict[str, object] = {} if len(indexes) % 2 else {"bname": "broker-a"}
        twin.receive(1, frame_of(command(200_151, fields, len(bits)), body))

    return send


def acked(point: CheckPoint, bits: bytes) -> dict[str, object]:
    (group, topic, queue_id), start_offset, pop_time_ms = point.key
    return {
        "b": base64.b64encode(bits).decode(),
        "c": group,
        "it": point.invisible_ms,
        "pt": pop_time_ms,
        "q": queue_id,
        "r": "0",
        "rq": 0,
        "so": start_offset,
        "t": topic,
    }


batch_acks = st.builds(
    batch_ack,
    st.lists(st.integers(0, 30), min_size=1, max_size=3),
    st.sampled_from([b"\x01", b"\x01", b"\x0f", b"\xff\xff\xff\xff", b"\x05", b"\x02\x01", b""]),
    st.sampled_from(
        [*[{}] * 12, {"so": 1}, {"rq": 999}, {"t": "none"}, {"q": "x"}, {"b": "!"}, {"pt": 1}]
    ),
)


acks = st.builds(
    single_acks,
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.integers(0, 6)), max_size=8),
    st.sampled_from(
        [
            *[{}] * 16,
            {"lo": "true", "bname": "broker-a"},
            {"lo": "x"},
            {"topic": "none"},
            {"queueId": "1"},
            {"queueId": "40"},
            {"offset": "100000"},
            {"offset": "-1"},
            {"consumerGroup": "others"},
            *(
                {"extraInfo": receipt}
                for receipt in (
                    "0 1 2 999 0 broker-a 0 0",
                    "0 1 2 3 0 broker-a 0 0",
                    "0 1 2 3  broker-a 0 0",
                    "00 1 2 3 0 broker-a 0 0",
                    "0 1 2 3 0 broker-a 0 0 ",
                    "0 1 2 3 0 broker-a 0",
                    "0 1 -2 3 0 broker-a 0 0",
                    "0 1 2 3 0 broker-a 0 x",
                    "",
                )
            ),
        ]
    ),
    st.sampled_from([200_151, 34]),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """What happens: two streams in any pieces, and changes between them."""
    events: list[Event] = []
    for number in draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=1, max_size=6)):
        data = b"".join(draw(st.lists(any_frames, min_size=1, max_size=6)))
        if draw(st.integers(0, 30)) == 0:
            data += draw(hostile_bytes)
        at = 0
        for size in [*draw(st.lists(st.integers(1, 1500), max_size=3)), len(data)]:
            if data[at : at + size]:
                events.append(arrival(number, data[at : at + size]))
            at += size
        events += draw(st.lists(st.one_of(send_backs, acks, batch_acks), max_size=3))
        events += draw(st.lists(changes, max_size=1))
    return events


def first_sends() -> bytes:
    """The fast path goes where there is a queue, and finds what is in it."""
    tags = "red", "blue", "first", "x"
    waiting = "DELAY\x011", "TRAN_MSG\x01true"
    return b"".join(
        frame_of(command(310, send_fields(topic, queue_id, text), 5), b"first")
        for topic, queue_id, text in (
            *product(TOPICS, QUEUE_IDS, [f"TAGS\x01{tag}" for tag in tags]),
            *product(TOPICS[:1], QUEUE_IDS[:1], waiting),
        )
    )


def first_pops() -> bytes:
    """Groups are known in their queues, and something is out."""
    return b"".join(
        frame_of(command(200_050, pop_fields(group, topic, queue_id, 1), 6))
        for group, topic, queue_id in product(GROUPS, TOPICS, QUEUE_IDS)
    )


class Outcome(NamedTuple):
    received: list[object]
    are_closed: list[bool]
    log: tuple[int, list[bytes]]
    queues: dict[tuple[bytes, int], tuple[int, int, bytes]]
    index_files: list[bytes]
    offsets: bytes
    change_counts: tuple[int, int, int]
    statistics: dict[str, object]
    waiting: tuple[object, ...]
    popped: tuple[object, ...]
    waiting_pulls: int
    parked: list[int]


def outcome_of(twin: Twin) -> Outcome:
    broker = twin.broker
    with suppress(StoreUnavailable):
        broker.store.file_keys()
    store = broker.store
    counters = broker.statistics
    tables: dict[str, Mapping[Any, Tally]] = {
        "topic": counters._topic_puts,
        "group": counters._group_gets,
    }
    is_sync = broker.messages.acks.is_awaited
    return Outcome(
        [sorted_frames(each.received) if is_sync else each.received for each in twin.clients],
        [each.is_closed for each in twin.clients],
        (store.log_end, [file.mapping[:] for file in log_of(store).files]),
        {
            key: (queue.min_offset, queue.max_offset, queue.entries(queue.min_offset, 1 << 20))
            for key, queue in queues_of(store).by_key.items()
        },
        [file.file.mapping[:] for file in index_of(store)._files],
        broker.tables.offsets.to_bytes(),
        (
            broker.tables.offsets.change_count,
            broker.tables.topics.change_count,
            broker.tables.groups.change_count,
        ),
        {
            "all": [
                (each.count, each.size, each.times) for each in (counters._puts, counters._gets)
            ],
            "sent back": {key: each.count for key, each in counters._send_backs.items()},
            "missed": (counters._missed_count, counters._failed_put_count),
            **{
                f"{kind} {key}": (each.count, each.size, each.times)
                for kind, table in tables.items()
                for key, each in table.items()
            },
        },
        (
            list(broker.waiting.delays.waiting()),
            broker.waiting.delays.next_due_ms,
            broker.waiting.pending_halves.progress,
        ),
        popped_of(broker),
        twin.bed.waiting_pull_count,
        [each.connection.deferred_count for each in twin.clients],
    )


def popped_of(broker: Broker) -> tuple[object, ...]:
    journal = broker.waiting.pops
    points = [
        (point.key, list(point.offsets), point.open_bits, point.due_ms, point.place)
        for point in journal.in_flight.points()
    ]
    return points, dict(journal.in_flight.counts), journal.lag, broker.waiting.first_queue.number


def count_ways(statistics: Statistics, taken: Counter[str]) -> None:
    for kind in KINDS:
        paths = getattr(statistics, kind)
        taken[f"{kind} fast"] += paths.fast
        taken[f"{kind} slow"] += paths.slow


def sorted_frames(received: bytes) -> list[Frame]:
    """With sync flush the replies to one wake-up go out together, and others before them."""
    return sorted(FrameDecoder().cut(received))


async def happen(twin: Twin, events: Sequence[Event]) -> None:
    for event in events:
        event(twin)
        for _ in range(4):  # Whoever was woken, and what that leads to.
            await asyncio.sleep(0)


async def lived(store: StoreConfig, events: Sequence[Event], taken: Counter[str] | None) -> Outcome:
    """With a fast path, what went through it is counted in `taken`."""
    random.seed(7)  # Who names no queue gets any.
    disk = TightDisk()
    try:
        async with broker_bed(
            ROOT,
            disk=disk,
            clock=FakeClock(),
            store=store,
            sync_timeout_ms=60_000,
            sql_filters=True,
        ) as bed:
            stop_disk(bed)
            twin = Twin(bed, disk, has_fast_path=taken is not None)
            if taken is None:
                bed.broker.waiting.pops.fast = None
            for topic in TOPICS:
                bed.broker.tables.topics.update(
                    TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
                )
            beats = b"".join(heartbeat(group, "*", 1) for group in GROUPS)
            first = arrival(0, first_sends() + beats), sync, arrival(1, first_pops()), sync
            await happen(twin, first)
            bed.broker.statistics.pops.slow = 0  # A group is new to a queue only once.
            await happen(twin, [*events, sync])
            if taken is not None:
                count_ways(bed.broker.statistics, taken)
            disk.is_full = False
            return outcome_of(twin)
    finally:
        disk.wipe()


def assert_both_agree(store: StoreConfig, events: Sequence[Event], taken: Counter[str]) -> None:
    without = asyncio.run(lived(store, events, None))
    with_fast_path = asyncio.run(lived(store, events, taken))
    for name in Outcome._fields:
        assert getattr(with_fast_path, name) == getattr(without, name), name


@pytest.mark.parametrize("flush_mode", FlushMode)
@pytest.mark.parametrize("files", [{}, LARGE_FILES], ids=["small-files", "large-files"])
def test_the_fast_path_and_the_handlers_agree(flush_mode: FlushMode, files: dict[str, int]) -> None:
    store = small_config(ROOT, flush_mode=flush_mode, **files)
    taken: Counter[str] = Counter()

    @settings(max_examples=settings().max_examples // 2)
    @given(events=streams())
    def agree(events: list[Event]) -> None:
        assert_both_agree(store, events, taken)

    agree()
    # Or all of this would say nothing. Much of what arrives here is odd, by design.
    for kind in KINDS:
        if flush_mode is FlushMode.SYNC and kind in ("pops", "batch_acks"):
            continue
        fast, slow = taken[f"{kind} fast"], taken[f"{kind} slow"]
        assert fast > TAKEN_SHARE_MIN[kind] * (fast + slow), taken


@pytest.mark.parametrize("wait", ["", "\x02WAIT\x01true"])
@pytest.mark.parametrize(
    "more", ["", "\x02REAL_TOPIC\x01t\x02REAL_QID\x011", "\x02TIMER_OUT_MS\x019"]
)
def test_both_agree_about_dead_letters_of_dead_letters(wait: str, more: str) -> None:
    """Each of them has the properties of those before it, and stays where it first was."""
    group, topic = GROUPS[0], TOPICS[0]
    text = f"KEYS\x01k{wait}\x02RETRY_TOPIC\x01first\x02TAGS\x01a{more}"
    fields = {"group": group, "delayLevel": "-1"}
    sent = frame_of(command(310, send_fields(topic, "0", text), 5), b"dead")
    events = [
        arrival(0, sent),
        *(send_back(topic, "0", index, fields) for index in range(1, 5)),
        *(send_back(dlq_topic(group), "0", index, fields) for index in range(1, 9)),
        send_back(dlq_topic(group), "0", 1, fields | {"delayLevel": "3"}),
    ]
    assert_both_agree(small_config(ROOT, **LARGE_FILES), events, Counter())


@pytest.mark.parametrize(
    "wanted", [{"exp": "*"}, {"exp": "red"}, {"exp": "TAGS = 'red'", "expType": "SQL92"}]
)
@pytest.mark.parametrize("count", [1, 31, 32, 33])
def test_both_agree_about_as_many_messages_as_clients_ask_for(
    count: int, wanted: dict[str, str]
) -> None:
    group, topic = GROUPS[0], TOPICS[0]
    tags = ["TAGS\x01red", "TAGS\x01blue", "TAGS\x01red"] * 60
    sent = [frame_of(command(310, send_fields(topic, "0", text), 5), b"many") for text in tags]
    popped = [
        frame_of(command(200_050, pop_fields(group, topic, queue_id, count) | wanted, 6))
        for queue_id in ("0", "-1", "0")
    ]
    events = [
        arrival(0, b"".join(sent)),
        *(arrival(1, each) for each in popped),
        *(batch_ack([index], bits, {}) for index, bits in enumerate(BITS)),
        pass_time,
        arrival(1, popped[0]),
    ]
    taken: Counter[str] = Counter()
    assert_both_agree(small_config(ROOT, **LARGE_FILES), events, taken)
    assert (taken["pops fast"] > 0) == (count <= POP_COUNT_MAX)


@pytest.mark.parametrize("level", ["-1", "0", "3"])
@pytest.mark.parametrize("count_max", ["16", "2147483647"])
@pytest.mark.parametrize(
    "count", ["-2147483648", "-4", "-3", "-2", "15", "16", "2147483646", "2147483647"]
)
def test_both_agree_about_the_last_retry(count: str, count_max: str, level: str) -> None:
    group, topic = GROUPS[0], TOPICS[0]
    sent = frame_of(command(310, send_fields(topic, "0", "KEYS\x01k", j=count), 5), b"retried")
    fields = {"group": group, "delayLevel": level, "maxReconsumeTimes": count_max}
    events = [
        # The first of them makes the topic of dead letters.
        *(send_back(topic, "0", 1, fields | {"delayLevel": "-1"}) for _ in range(2)),
        arrival(0, sent),
        *(send_back(topic, "0", index, fields) for index in range(1, 9)),
    ]
    assert_both_agree(small_config(ROOT, **LARGE_FILES), events, Counter())


@pytest.mark.parametrize(
    "size", [0, 1, 8_191, 8_192, 8_193, 16_120, 16_383, 16_384, 16_385, 30_000]
)
def test_both_agree_about_properties_of_any_size(size: int) -> None:
    """Of a message, of a message that waits or starts a transaction, and of a batch."""
    topic = TOPICS[0]
    text = "v" * size
    items = [(0, b"a", f"KEYS\x01{text}".encode()), (0, b"b", b"")]
    texts = (
        f"KEYS\x01{text}",
        f"KEYS\x01{text}\x02",
        f"DELAY\x011\x02KEYS\x01{text}",
        f"TRAN_MSG\x01true\x02PGROUP\x01g\x02KEYS\x01{text}",
    )
    sent = [
        *(frame_of(command(310, send_fields(topic, "0", each), 5), b"sized") for each in texts),
        frame_of(command(320, send_fields(topic, "0", "a\x01b", m="true"), 5), encode_batch(items)),
        frame_of(
            command(320, send_fields(topic, "0", f"a\x01{text}", m="true"), 5),
            encode_batch([(0, b"a", b""), (0, b"b", b"c\x01d")]),
        ),
    ]
    fields = {"group": GROUPS[0], "delayLevel": "1"}
    events = [
        *(arrival(0, each) for each in sent),
        *(send_back(topic, "0", index, fields) for index in range(1, 9)),
    ]
    assert_both_agree(small_config(ROOT, **LARGE_FILES), events, Counter())


@pytest.mark.parametrize("count", [0, 1, 2, 127, 128, 129, 1_000])
def test_both_agree_about_batches_of_any_count(count: int) -> None:
    body = encode_batch([(index, b"", b"") for index in range(count)])
    fields = send_fields(TOPICS[0], "0", "", m="true")
    pull = frame_of(command(11, PULL_OF_MANY, 7))
    events = [
        arrival(0, frame_of(command(320, fields, 5), body)),
        arrival(0, frame_of(command(320, fields | {"e": "1"}, 5), body + b"\0")),
        arrival(1, pull),
    ]
    assert_both_agree(small_config(ROOT, **LARGE_FILES), events, Counter())


@pytest.mark.parametrize(
    "offset", [-(2**63), -(2**62), -1, 0, 1, 90, 2**31, 2**32, 10**18 - 1, 10**18, 2**63 - 1]
)
def test_both_agree_about_send_backs_from_anywhere(offset: int) -> None:
    fields = {"offset": str(offset), "group": GROUPS[0], "delayLevel": "1"}
    events = [arrival(0, frame_of(command(36, fields, 5)))]
    assert_both_agree(small_config(ROOT), events, Counter())
