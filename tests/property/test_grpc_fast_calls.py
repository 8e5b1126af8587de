"""Calls of gRPC are answered and stored the same with the fast path and without it.

Two brokers with one clock get the same bytes in the same pieces; only one of them has fast calls.
Every byte they answer, every byte of their logs and queues, and what they count is equal.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import h2.config
import h2.connection
import pytest
from hypothesis import given, strategies as st

from roquet.grpc.calls import EndpointFigures, with_head
from roquet.grpc.codes import MessageType
from roquet.grpc.connection import FastCalls, GrpcConnection, GrpcLimits
from roquet.grpc.http2 import REQUEST, Http2Session
from roquet.grpc.in_broker.sending import turns
from roquet.grpc.in_broker.service import BrokerService
from roquet.grpc.methods import Endpoint
from roquet.grpc.schema import SERVICE, Message, pb
from roquet.net.deadlines import DeadlineSweep
from roquet.net.limits import ConnectionBudget
from roquet.net.service import Services
from roquet.protocol.bodies.topics import TopicConfig
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import log_of, queues_of
from tests.support.ram_disk import RamDisk
from tests.support.stores import small_config

ROOT: Final = Path("/store")
LARGE_FILES: Final = {"commit_log_file_size": 1 << 20, "queue_file_size": 20_000}
TOPICS: Final = ("normal", "fifo", "mixed", "closed")
GROUP: Final = "readers"
POP_MS: Final = FakeClock().now_ms()
LIMITS: Final = GrpcLimits(message_size_max=20_000)


class Peer(asyncio.Transport):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""
        self.is_gone = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It reads everything at once."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.7", 50_001) if name == "peername" else default

    def close(self) -> None:
        self.is_gone = True

    def abort(self) -> None:
        self.is_gone = True


class Owner:
    def opened(self, connection: GrpcConnection) -> None:
        """Nothing is to be noted down."""

    def closed(self, connection: GrpcConnection) -> None:
        """Nothing is to be noted down."""


class Ways:
    """The endpoint of a broker, with fast calls or without; counts those that were taken."""

    def __init__(self, service: BrokerService, taken: Counter[bool] | None) -> None:
        self._service = service
        self.open_call = Endpoint(service).open_call
        self._taken = taken
        self._fast: FastCalls | None = None

    def begin_fast_calls(self, connection: GrpcConnection) -> "Ways | None":
        if self._taken is None:
            return None
        self._fast = self._service.begin_fast_calls(connection)
        return self

    def take(
        self,
        connection: GrpcConnection,
        session: Http2Session,
        events: list[Any],
        start: int,
    ) -> int:
        assert self._fast is not None
        assert self._taken is not None
        left = self._fast.take(connection, session, events, start)
        self._taken.update([True] * (left - start))
        self._taken.update([False for kind, *_ in events[left : left + 1] if kind == REQUEST])
        return left

    def end_calls(self) -> None:
        self._service.end_calls()


class Outcome(NamedTuple):
    received: bytes
    is_gone: bool
    log: tuple[int, list[bytes]]
    queues: dict[tuple[bytes, int], tuple[int, int, bytes]]
    puts: dict[str, tuple[int, int, int]]
    popped: list[Any]
    begun: Mapping[str, int]
    ended: Mapping[Any, int]


async def lived(
    pieces: Sequence[bytes], settings: Mapping[str, Any], taken: Counter[bool] | None
) -> Outcome:
    turns.number = 0
    random.seed(7)  # Receives start with any queue.
    store = small_config(ROOT, **LARGE_FILES)
    async with (
        broker_bed(ROOT, disk=RamDisk(), clock=FakeClock(), store=store, **settings) as bed,
        Services("test") as services,
    ):
        create_topics(bed)
        figures = EndpointFigures()
        broker = bed.broker
        service = BrokerService(lambda: broker, services, figures)
        peer = Peer()
        connection = connected(bed, Ways(service, taken), peer)
        for piece in pieces:
            if not peer.is_gone:
                connection.data_received(piece)
            for _ in range(4):
                await asyncio.sleep(0)
        connection.connection_lost(None)
        service.clients.close()
        return outcome_of(bed, figures, peer)


def create_topics(bed: BrokerBed) -> None:
    for name in TOPICS:
        kind = "NORMAL" if name == "closed" else name.upper()
        perm = 4 if name == "closed" else 6
        settings = TopicConfig(
            topic_name=name,
            read_queue_nums=2,
            write_queue_nums=2,
            perm=perm,
            attributes={"+message.type": kind},
        )
        bed.broker.tables.topics.update(settings)


def connected(bed: BrokerBed, ways: Ways, peer: Peer) -> GrpcConnection:
    deadlines, budget = DeadlineSweep(bed.clock), ConnectionBudget(bed.clock)
    connection = GrpcConnection(Owner(), ways, deadlines, LIMITS, budget)
    connection.connection_made(peer)
    return connection


def outcome_of(bed: BrokerBed, figures: EndpointFigures, peer: Peer) -> Outcome:
    store, statistics = bed.broker.store, bed.broker.statistics
    return Outcome(
        peer.received,
        peer.is_gone,
        (store.log_end, [file.mapping[:] for file in log_of(store).files]),
        {
            key: (queue.min_offset, queue.max_offset, queue.entries(queue.min_offset, 1 << 20))
            for key, queue in queues_of(store).by_key.items()
        },
        {
            key: (each.count, each.size, each.times)
            for key, each in (("", statistics.puts), *statistics.all_topic_puts())
        },
        [
            (point.key, list(point.offsets), point.open_bits, point.due_ms, point.place)
            for point in bed.broker.waiting.pops.in_flight.points()
        ],
        figures.begun,
        figures.ended,
    )


# What clients send.

texts = st.sampled_from(
    [
        "a",
        "order-7",
        "x y",
        " ",
        "",
        "a|b",
        "\x01",
        "\x7f",
        "地址",
        "v" * 70,
        "__CRC32#7",
        "k" * 9_000,
    ]
)
words = st.one_of(st.sampled_from(["a", "order-7", "01AB"]), texts)
names = st.sampled_from(
    ["city", "city", "land", "ünïcode", "", "TAGS", "KEYS", "WAIT", "__CRC32#", "a=b", "\x02"]
)
times = st.builds(
    pb.Timestamp,
    seconds=st.sampled_from([0, 1, 1_794_934_487, -1, 1 << 41, (1 << 63) - 1]),
    nanos=st.sampled_from([0, 999_999, 1_000_000, 999_999_999, -1, (1 << 31) - 1]),
)
common: Final[dict[str, Any]] = {
    "message_id": st.sampled_from(["0102FC01", "0102FC02", "", " ", "a b", "地址"]),
    "message_type": st.sampled_from([*range(7), MessageType.NORMAL, MessageType.NORMAL]),
}
optional: Final[dict[str, Any]] = {
    "tag": words,
    "keys": st.lists(words, max_size=3),
    "body_digest": st.just(pb.Digest(type=2, checksum="00FF")),
    "body_encoding": st.sampled_from([0, 1, 2, 3, -1]),
    "born_timestamp": times,
    "born_host": texts,
    "queue_id": st.sampled_from([0, 1, 7, -1]),
    "message_group": words,
    "trace_context": texts,
    "delivery_timestamp": st.just(pb.Timestamp(seconds=1)),
    "priority": st.just(1),
    "store_host": st.just("host"),
}
systems = st.fixed_dictionaries(common, optional=optional).map(
    lambda members: pb.SystemProperties(**members)
)
usual = st.fixed_dictionaries(
    {"message_id": st.just("0102FC01"), "message_type": st.just(1)},
    optional={
        "tag": st.just("new"),
        "keys": st.lists(st.sampled_from(["k1", "k2"]), max_size=3),
        "born_timestamp": st.just(pb.Timestamp(seconds=1_794_934_487, nanos=260_000_000)),
        "born_host": st.just("laptop"),
        "body_encoding": st.sampled_from([1, 2]),
        "message_group": st.sampled_from(["g1", "g2"]),
        "trace_context": st.just("trace"),
        "queue_id": st.just(3),
    },
).map(lambda members: pb.SystemProperties(**members))


def sent(topic: str, system: Message, pairs: list[tuple[str, str]], body: bytes) -> Message:
    return pb.Message(
        topic=pb.Resource(name=topic),
        system_properties=system,
        user_properties=[pb.UserProperty(key=key, value=value) for key, value in pairs],
        body=body,
    )


usual_sends = st.builds(
    sent,
    st.sampled_from(["normal", "normal", "fifo", "mixed"]),
    usual,
    st.lists(st.sampled_from([("city", "Rome"), ("land", "it")]), max_size=2),
    st.sampled_from([b"hello", bytes(300)]),
)
any_sends = st.builds(
    sent,
    st.sampled_from([*TOPICS, "none", "%x", "", "地址", "TBW102"]),
    st.one_of(systems, usual),
    st.lists(st.tuples(names, texts), max_size=3),
    st.sampled_from([b"hello", b"", bytes(3_000)]),
)


def damaged(data: bytes, at: int, byte: int) -> bytes:
    found = bytearray(data or b"\0")
    found[at % len(found)] = byte
    return bytes(found)


requests = st.one_of(
    st.lists(usual_sends, min_size=1, max_size=1),
    st.lists(usual_sends, min_size=1, max_size=1),
    st.lists(any_sends, max_size=2),
).map(lambda found: bytes(pb.SendMessageRequest(messages=found).SerializeToString()))
messages = st.one_of(
    requests,
    requests,
    requests,
    st.builds(damaged, requests, st.integers(0, 500), st.integers(0, 255)),
    # Fields again, and fields that nobody knows.
    st.builds(
        lambda data, rest: data + rest, requests, st.sampled_from([b"\x0a\0", b"\x78\1", b"x"])
    ),
    st.binary(max_size=20),
)
data_of_calls = st.one_of(
    messages.map(with_head),
    messages.map(with_head),
    messages.map(with_head),
    messages.map(lambda data: b"\1" + with_head(data)[1:]),
    messages.map(lambda data: with_head(data)[:-1]),
    messages.map(lambda data: with_head(data) + with_head(data)),
    st.binary(max_size=7),
)
headers_of_calls = st.sampled_from(
    [
        *[{}] * 20,
        {":method": "GET"},
        {":path": SERVICE + "Nothing"},
        {":path": SERVICE + "AckMessage"},
        {"content-type": "text/plain"},
        {"content-type": "application/grpc+proto"},
        {"x-mq-client-id": ""},
        {"grpc-timeout": "3S", "x-mq-language": "GO"},
    ]
)


class GivenCall(NamedTuple):
    method: str
    headers: Mapping[str, str]
    data: bytes
    # In how many frames of data.
    piece_size: int
    end: str


def receipt(start: int, pop_ms: int, invisible: str, kind: str, place: tuple[int, int]) -> str:
    queue_id, offset = place
    return f"{start} {POP_MS + pop_ms} {invisible} {kind} broker-a {queue_id} {offset}"


receipts = st.one_of(
    *[
        st.builds(
            receipt,
            st.just(0),
            st.just(0),
            st.just("15000"),
            st.just("0 0"),
            st.tuples(st.integers(0, 1), st.integers(0, 3)),
        )
    ]
    * 3,
    st.builds(
        receipt,
        st.integers(0, 2),
        st.sampled_from([0, 0, -1, 1, -20_000]),
        st.sampled_from(["15000", "10000", "0", "015000", "9" * 19, "x"]),
        st.sampled_from(["0 0", "0 1", "999 0", "1 0", "0 x", "0"]),
        st.tuples(
            st.sampled_from([0, 1, 9, 1 << 32]),
            st.one_of(
                st.integers(0, 3),
                st.sampled_from([10**18 - 1, 10**18, 2**63 - 1, 2**63, 10**19 - 1, 10**19]),
            ),
        ),
    ),
    texts,
)
entries = st.builds(
    pb.AckMessageEntry,
    message_id=st.sampled_from(["", "0102FC01", "0102FC01", "地址"]),
    receipt_handle=receipts,
)
acks = st.builds(
    lambda topic, group, given_entries: pb.AckMessageRequest(
        group=group, topic=pb.Resource(name=topic), entries=given_entries
    ),
    st.sampled_from(["normal", "normal", "normal", "none", ""]),
    st.sampled_from(
        [
            *[pb.Resource(name=GROUP)] * 4,
            pb.Resource(),
            pb.Resource(name="%"),
            pb.Resource(name="x"),
        ]
    ),
    st.lists(entries, max_size=4),
).map(lambda found: bytes(found.SerializeToString()))
data_of_acks = st.one_of(
    acks.map(with_head),
    acks.map(with_head),
    acks.map(with_head),
    st.builds(damaged, acks.map(with_head), st.integers(0, 500), st.integers(0, 255)),
    acks.map(lambda data: with_head(data + b"\x0a\0")),
    acks.map(lambda data: with_head(data)[:-1]),
)


def calls_of(method: str, data: st.SearchStrategy[bytes]) -> st.SearchStrategy[GivenCall]:
    return st.builds(
        GivenCall,
        st.just(method),
        headers_of_calls,
        data,
        st.sampled_from([16_000, 16_000, 16_000, 40]),
        st.sampled_from([*["stream"] * 12, "frame", "reset", "never"]),
    )


calls = st.one_of(calls_of("SendMessage", data_of_calls), calls_of("AckMessage", data_of_acks))


def stream_of(given_calls: Sequence[GivenCall]) -> bytes:
    config = h2.config.H2Configuration(client_side=True)
    client = h2.connection.H2Connection(config)
    client.initiate_connection()
    for number, call in enumerate(given_calls):
        stream_id = 2 * number + 1
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": SERVICE + call.method,
            ":authority": "test",
            "content-type": "application/grpc",
            "x-mq-client-id": "test@1@0@a",
        } | dict(call.headers)
        client.send_headers(stream_id, list(headers.items()))
        for at in range(0, len(call.data), call.piece_size):
            is_last = at + call.piece_size >= len(call.data) and call.end == "stream"
            client.send_data(stream_id, call.data[at : at + call.piece_size], end_stream=is_last)
        if call.end == "frame" or (call.end == "stream" and not call.data):
            client.end_stream(stream_id)
        elif call.end == "reset":
            client.reset_stream(stream_id)
    return client.data_to_send()


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


FIRST: Final = GivenCall(
    "SendMessage",
    {},
    with_head(
        pb.SendMessageRequest(
            messages=[sent("normal", pb.SystemProperties(message_id="1"), [], b"first")]
        ).SerializeToString()
    ),
    16_000,
    "stream",
)


RECEIVE: Final = GivenCall(
    "ReceiveMessage",
    {},
    with_head(
        pb.ReceiveMessageRequest(
            group=pb.Resource(name=GROUP),
            message_queue=pb.MessageQueue(topic=pb.Resource(name="normal")),
            invisible_duration=pb.Duration(seconds=15),
            batch_size=32,
        ).SerializeToString()
    ),
    16_000,
    "stream",
)


@given(st.lists(calls, min_size=1, max_size=8), st.lists(st.integers(0, 4_000), max_size=4))
def test_both_ways_answer_and_store_the_same(given_calls: list[GivenCall], cuts: list[int]) -> None:
    # The fast path goes where there is a queue; and something is out.
    data = stream_of([*[FIRST] * 6, RECEIVE, *given_calls])
    pieces = pieces_of(data, cuts)
    fast = asyncio.run(lived(pieces, {}, Counter()))
    assert fast == asyncio.run(lived(pieces, {}, None))


@pytest.mark.parametrize("settings", [{}, {"permission": 4}])
async def test_usual_sends_are_taken_if_they_are_not_refused(settings: dict[str, Any]) -> None:
    taken: Counter[bool] = Counter()
    outcome = await lived([stream_of([FIRST] * 6)], settings, taken)
    assert taken == ({False: 6} if settings else {False: 2, True: 4})
    assert outcome == await lived([stream_of([FIRST] * 6)], settings, None)


async def test_usual_acks_are_taken() -> None:
    handles = [receipt(0, 0, "15000", "0 0", (queue_id, 0)) for queue_id in (0, 1)]
    ack = pb.AckMessageRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        entries=[pb.AckMessageEntry(message_id="1", receipt_handle=each) for each in handles],
    )
    call = RECEIVE._replace(method="AckMessage", data=with_head(ack.SerializeToString()))
    pieces = [stream_of([FIRST, FIRST, RECEIVE, call, call])]
    taken: Counter[bool] = Counter()
    outcome = await lived(pieces, {}, taken)
    assert (taken, outcome.popped) == ({False: 3, True: 2}, [])
    assert outcome == await lived(pieces, {}, None)


def call_of(method: str, request: Message) -> GivenCall:
    return GivenCall(method, {}, with_head(request.SerializeToString()), 16_000, "stream")


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65])
async def test_both_ways_agree_about_many_of_a_kind(count: int) -> None:
    """Keys, properties, and acks of one call."""
    keys = pb.SystemProperties(message_id="1", keys=[f"k{index}" for index in range(count)])
    pairs = [(f"name{index}", "v") for index in range(count)]
    handles = [receipt(0, 0, "15000", "0 0", (0, index)) for index in range(count)]
    calls = [
        call_of("SendMessage", pb.SendMessageRequest(messages=[each]))
        for each in (
            sent("normal", keys, [], b"keys"),
            sent("normal", pb.SystemProperties(message_id="2"), pairs, b"properties"),
        )
    ]
    ack = pb.AckMessageRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        entries=[pb.AckMessageEntry(message_id="1", receipt_handle=each) for each in handles],
    )
    pieces = [stream_of([*[FIRST] * 6, *calls, RECEIVE, call_of("AckMessage", ack)])]
    assert await lived(pieces, {}, Counter()) == await lived(pieces, {}, None)


@pytest.mark.parametrize(
    "size", [1, 127, 128, 129, 255, 256, 4_096, 16_300, 16_383, 16_384, 16_385]
)
@pytest.mark.parametrize("name", ["tag", "keys", "born_host", "message_group", "trace_context", ""])
async def test_both_ways_agree_about_texts_of_any_size(name: str, size: int) -> None:
    """And about bodies: a size takes one byte more from 128 and from 16384 on."""
    text = "v" * size
    members = {name: [text] if name == "keys" else text} if name else {}
    topic = "fifo" if name == "message_group" else "normal"
    system = pb.SystemProperties(message_id="1", **members)
    pairs = [] if name else [("city", text)]
    given = [
        sent(topic, system, pairs, b"small"),
        sent("normal", pb.SystemProperties(message_id="1" * size), [], b"id"),
        sent("normal", pb.SystemProperties(message_id="1"), [], bytes(size)),
    ]
    calls = [call_of("SendMessage", pb.SendMessageRequest(messages=[each])) for each in given]
    pieces = [stream_of([*[FIRST] * 6, calls[0], *([] if name else calls[1:]), RECEIVE])]
    assert await lived(pieces, {}, Counter()) == await lived(pieces, {}, None)
