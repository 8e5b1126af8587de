"""What each request costs our broker and Apache 4.9.7: CPU us of the server, in one run.

One connection, 64 requests in flight; `load.c` replays frames prepared here. The brokers take turns
at each operation, and the lower of two figures counts. CPU time depends little on what else the
machine does, so ratios mean something even if it is busy. `--only NAME` measures the operations
whose names contain NAME; `--write` puts the table into docs/performance.md. All of it takes six
minutes. Timers are not in 4.9.7. Its indexes of properties (`enableConsumeQueueExt`) are not in
ours, so filters are compared without them.
"""

import argparse
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import (
    Server,
    apache_command,
    compile_load,
    member,
    our_command,
    replay,
    start,
)
from bench.rig.measured_page import write_measured

from roquet.protocol.bodies.body import MessageQueue, write_body
from roquet.protocol.bodies.clients import (
    ConsumerData,
    Heartbeat,
    ProducerData,
    SubscriptionData,
)
from roquet.protocol.bodies.groups import QueueLockRequest
from roquet.protocol.codes import PullFlag, RequestCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.fields import AddressedHeader, Header, fields_of, read_header
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.groups import (
    ConsumerListHeader,
    GetMaxOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from roquet.protocol.headers.messages import (
    EndTransactionHeader,
    PullMessageHeader,
    QueryMessageHeader,
    SendBackHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
    ViewMessageHeader,
)
from roquet.protocol.messages.message_id import parse_offset_id
from tests.support.blocking_peer import BlockingPeer

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
TOPIC: Final = "bench"
GROUP: Final = "bench"
BODY: Final = b"x" * 128
STORED_COUNT: Final = 40_000  # in queue 0, for everything that reads
FRAME_COUNT: Final = 4_096  # different ones of an operation
DELAYED_COUNT: Final = 20_000
PULLED_COUNT: Final = 32
TURNS: Final = 2
SECONDS: Final = 1.5
WARM_UP_S: Final = 10.0
LONGEST_LEVEL: Final = 18  # Nothing comes due meanwhile.
DUE_LEVEL: Final = 2  # five seconds
DRAIN_S_MAX: Final = 120.0
HALF_FLAG: Final = 4
COMMITTED: Final = 8
GROUP_COUNT: Final = 5
TIMER_MS: Final = 30_000  # longer than the sends take
ASKER: Final = "bench-asker"  # the client that gets replies, and is asked about transactions
ALL_SETTINGS: Final = (
    "enablePropertyFilter=true\ntransactionTimeOut=3600000\ntransactionCheckInterval=3600000\n"
)
CHECK_SETTINGS: Final = "transactionTimeOut=2000\ntransactionCheckInterval=5000\n"
# Half of the stored messages match.
EXPRESSION: Final = "amount BETWEEN 10 AND 1000000 AND region IN ('eu', 'us')"
REGIONS: Final = ("eu", "asia", "us", "africa")


class Store(NamedTuple):
    """What the broker has before anything is measured."""

    physical_offsets: list[int]
    start_ms: int
    end_ms: int


Frames = Callable[[str, Store], Iterable[bytes]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", metavar="NAME", help="operations with this in a name")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    options = parser.parse_args()
    commands = (our_command,) if options.ours_only else (our_command, apache_command)
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name, ExitStack() as stack:
        scratch = Path(name)
        load = compile_load(scratch)
        servers = [stack.enter_context(running(scratch, command)) for command in commands]
        figures = measure(servers, load, scratch, options.only)
        for command in commands if options.only in CHECK_BACK else ():
            with running(scratch / "checks", command, CHECK_SETTINGS) as server:
                figures.setdefault(CHECK_BACK, {})[server.name] = check_back(
                    server, load, scratch / "frames"
                )
    rows = list(table(figures))
    print("\n".join(rows))
    if options.write:
        write_measured(PAGE, "operations", rows, "python bench/operations.py --write")


@contextmanager
def running(
    scratch: Path, command: Callable[[Path, Path], list[str]], settings: str = ALL_SETTINGS
) -> Iterator[Server]:
    name = "ours" if command is our_command else "Apache"
    directory = scratch / name
    server = start(name, directory, "ASYNC_FLUSH", command, settings)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        shutil.rmtree(directory, ignore_errors=True)


Figures = dict[str, dict[str, float]]  # by operation and server


def measure(servers: list[Server], load: Path, scratch: Path, only: str) -> Figures:
    path = scratch / "frames"
    figures: Figures = {}
    stores = {server.name: fill(server, load, scratch) for server in servers}
    for server in servers:
        # The JIT compiles by what is run most, so the usual requests come first.
        write_frames(path, OPERATIONS["send"](server.name, stores[server.name]))
        replay(load, server, path, WARM_UP_S)
    for name, frames in OPERATIONS.items():
        # The first turn warms up.
        for server in servers * (1 + TURNS) if only in name else ():
            write_frames(path, frames(server.name, stores[server.name]))
            with member(server), Asker(server):
                cost = replay(load, server, path, SECONDS)
            known = figures.setdefault(name, {})
            known[server.name] = min(cost, known.get(server.name, cost))
    for name, cost_of in CYCLES.items():
        for server in servers if only in name else ():
            if name not in OURS_ONLY or server.name == "ours":
                figures.setdefault(name, {})[server.name] = cost_of(server, load, path)
    return figures


# --- what is stored before ---


def fill(server: Server, load: Path, scratch: Path) -> Store:
    path = scratch / "frames"
    start_ms = now_ms()
    write_frames(
        path, (send_frame(number, stored_properties(number)) for number in range(STORED_COUNT))
    )
    replay(load, server, path, DRAIN_S_MAX, STORED_COUNT)
    with BlockingPeer(address_of(server)) as peer:
        physical_offsets = [
            parse_offset_id(send(peer, number).msg_id).physical_offset for number in range(256)
        ]
    end_ms = now_ms()
    time.sleep(2)  # Apache dispatches to queues and index later.
    return Store(physical_offsets, start_ms, end_ms)


def stored_properties(number: int) -> str:
    return properties(
        KEYS=f"order-{number}",
        TAGS=f"tag-{number % 4}",
        amount=str(number),
        region=REGIONS[number % len(REGIONS)],
        UNIQ_KEY=f"{number:032X}",
        WAIT="true",
    )


def properties(**values: str) -> str:
    return "\x02".join(f"{name}\x01{value}" for name, value in values.items())


def send(peer: BlockingPeer, number: int) -> SendMessageReplyHeader:
    reply = peer.call(RequestCode.SEND_MESSAGE_V2, send_header(stored_properties(number)), BODY)
    return read_header(SendMessageReplyHeader, reply.fields)


# --- frames ---


def frame(number: int, code: RequestCode, header: Header | None, body: bytes = b"") -> bytes:
    # As Java's clients write them.
    return encode_command(
        Command(code, number, version=407, language="JAVA", fields=fields_of(header), body=body)
    )


def send_header(
    text: str,
    header_type: type[SendMessageHeader] = SendMessageHeaderV2,
    *,
    queue_id: int = 0,
    sys_flag: int = 0,
) -> SendMessageHeader:
    return header_type(
        producer_group=GROUP,
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=now_ms(),
        flag=0,
        properties=text,
        reconsume_times=0,
    )


def send_frame(number: int, text: str, *, queue_id: int = 0, sys_flag: int = 0) -> bytes:
    header = send_header(text, queue_id=queue_id, sys_flag=sys_flag)
    return frame(number, RequestCode.SEND_MESSAGE_V2, header, BODY)


def sends(_broker: str, _store: Store) -> Iterator[bytes]:
    for number in range(FRAME_COUNT):
        yield send_frame(number, stored_properties(number), queue_id=1)


def sends_by_code_10(_broker: str, _store: Store) -> Iterator[bytes]:
    for number in range(FRAME_COUNT):
        header = send_header(stored_properties(number), SendMessageHeader, queue_id=1)
        yield frame(number, RequestCode.SEND_MESSAGE, header, BODY)


def delayed_sends(_broker: str, _store: Store) -> Iterator[bytes]:
    for number in range(FRAME_COUNT):
        text = f"{stored_properties(number)}\x02DELAY\x01{LONGEST_LEVEL}"
        yield send_frame(number, text, queue_id=1)


def half_sends(_broker: str, _store: Store) -> Iterator[bytes]:
    for number in range(FRAME_COUNT):
        text = f"{stored_properties(number)}\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}"
        yield send_frame(number, text, queue_id=1, sys_flag=HALF_FLAG)


def send_backs(level: int) -> Frames:
    def frames(_broker: str, store: Store) -> Iterator[bytes]:
        for number, physical_offset in zip(range(FRAME_COUNT), cycle(store), strict=False):
            header = SendBackHeader(
                offset=physical_offset,
                group=GROUP,
                delay_level=level,
                origin_topic=TOPIC,
                max_reconsume_times=16,
            )
            yield frame(number, RequestCode.CONSUMER_SEND_MSG_BACK, header)

    return frames


def cycle(store: Store) -> Iterator[int]:
    while True:
        yield from store.physical_offsets


def pulls(expression: str, kind: str) -> Frames:
    def frames(_broker: str, _store: Store) -> Iterator[bytes]:
        for number in range(STORED_COUNT // PULLED_COUNT - 4):
            header = pull_header(number * PULLED_COUNT, expression, kind)
            yield frame(number, RequestCode.PULL_MESSAGE, header)

    return frames


def pull_header(queue_offset: int, expression: str, kind: str) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        queue_offset=queue_offset,
        max_msg_nums=PULLED_COUNT,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=15_000,
        sub_version=0,
        subscription=expression,
        expression_type=kind,
    )


def pulls_of_groups(_broker: str, _store: Store) -> Iterator[bytes]:
    """Of five groups in turn, each at another place of the queue."""
    whole = range(0, STORED_COUNT - 4 * PULLED_COUNT, PULLED_COUNT)
    for number, offset in enumerate(whole):
        place = number % GROUP_COUNT
        header = pull_header(
            (offset + place * STORED_COUNT // GROUP_COUNT) % whole.stop, "*", "TAG"
        )
        header.consumer_group = f"{GROUP}-{place}"
        yield frame(number, RequestCode.PULL_MESSAGE, header)


def orderly_cycles(broker: str, store: Store) -> Iterator[bytes]:
    """A lock of four queues, a pull and a commit, again and again."""
    yield from (
        each
        for cycle in zip(
            locks(broker, store),
            pulls("*", "TAG")(broker, store),
            OPERATIONS["commit offset"](broker, store),
            strict=False,
        )
        for each in cycle
    )


def replies(_broker: str, _store: Store) -> Iterator[bytes]:
    """To requests of another client, which the broker hands them to."""
    for number in range(FRAME_COUNT):
        text = properties(REPLY_TO_CLIENT=ASKER, CORRELATION_ID=f"{number}", MSG_TYPE="reply")
        header = send_header(text, queue_id=1)
        yield frame(number, RequestCode.SEND_REPLY_MESSAGE_V2, header, BODY)


def time_searches(_broker: str, store: Store) -> Iterator[bytes]:
    for number in range(FRAME_COUNT):
        span_ms = store.end_ms - store.start_ms
        header = SearchOffsetHeader(
            topic=TOPIC, queue_id=0, timestamp=store.start_ms + number * span_ms // FRAME_COUNT
        )
        yield frame(number, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)


def key_queries(_broker: str, store: Store) -> Iterator[bytes]:
    for number in range(FRAME_COUNT):
        # Each key has one message, for those sent while physical offsets were collected have two.
        header = QueryMessageHeader(
            topic=TOPIC,
            key=f"order-{STORED_COUNT // 2 + number}",
            max_num=PULLED_COUNT,
            begin_timestamp=0,
            end_timestamp=store.end_ms + 60_000,
        )
        yield frame(number, RequestCode.QUERY_MESSAGE, header)


def views(_broker: str, store: Store) -> Iterator[bytes]:
    for number, physical_offset in zip(range(FRAME_COUNT), cycle(store), strict=False):
        yield frame(
            number, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=physical_offset)
        )


def locks(broker: str, _store: Store) -> Iterator[bytes]:
    queues = [MessageQueue(broker_name=broker, queue_id=each, topic=TOPIC) for each in range(4)]
    body = write_body(QueueLockRequest(client_id="bench", consumer_group=GROUP, mq_set=queues))
    for number in range(FRAME_COUNT):
        yield frame(number, RequestCode.LOCK_BATCH_MQ, AddressedHeader(), body)


def heartbeats(_broker: str, _store: Store) -> Iterator[bytes]:
    consumer = ConsumerData(
        group_name=GROUP,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=[SubscriptionData(topic=TOPIC, sub_string="*")],
    )
    body = write_body(Heartbeat(client_id="bench", consumer_data_set=[consumer]))
    for number in range(FRAME_COUNT):
        yield frame(number, RequestCode.HEART_BEAT, None, body)


def each_header(code: RequestCode, header: Header) -> Frames:
    def frames(_broker: str, _store: Store) -> Iterator[bytes]:
        for number in range(FRAME_COUNT):
            yield frame(number, code, header)

    return frames


OPERATIONS: Final[dict[str, Frames]] = {
    "send": sends,
    "send by code 10": sends_by_code_10,
    "send delayed (level)": delayed_sends,
    "send half (transaction)": half_sends,
    "send back, retry (36)": send_backs(LONGEST_LEVEL),
    "send back, dead letter": send_backs(-1),
    "pull of 32": pulls("*", "TAG"),
    "pull of 32 with tags": pulls("tag-0 || tag-2", "TAG"),
    "pull of 32 with SQL92 filter": pulls(EXPRESSION, "SQL92"),
    "offset by time (29)": time_searches,
    "query by key (12)": key_queries,
    "view by id": views,
    "lock 4 queues": locks,
    "commit offset": each_header(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        UpdateConsumerOffsetHeader(
            consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=100
        ),
    ),
    "query offset": each_header(
        RequestCode.QUERY_CONSUMER_OFFSET,
        QueryConsumerOffsetHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0),
    ),
    "max offset": each_header(
        RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=TOPIC, queue_id=0)
    ),
    "members": each_header(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListHeader(consumer_group=GROUP)
    ),
    "heartbeat": heartbeats,
    "pull of 32, five groups at once": pulls_of_groups,
    "orderly: lock, pull or commit": orderly_cycles,
    "request-reply: a reply, pushed": replies,
}


# --- what happens after a request, too ---


def end_of_transaction(server: Server, load: Path, path: Path) -> float:
    """A commit: the half message is found, copied to its topic and marked as done."""
    halves = []
    with BlockingPeer(address_of(server)) as peer:
        for number in range(DELAYED_COUNT):
            text = f"{stored_properties(number)}\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}"
            header = send_header(text, queue_id=1, sys_flag=HALF_FLAG)
            reply = peer.call(RequestCode.SEND_MESSAGE_V2, header, BODY)
            halves.append(read_header(SendMessageReplyHeader, reply.fields))
    write_frames(path, (end_frame(number, half) for number, half in enumerate(halves)))
    return replay(load, server, path, DRAIN_S_MAX, DELAYED_COUNT)


def end_frame(number: int, half: SendMessageReplyHeader) -> bytes:
    header = EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=parse_offset_id(half.msg_id).physical_offset,
        commit_or_rollback=COMMITTED,
        msg_id=f"{number:032X}",
        transaction_id=f"{number:032X}",
    )
    return frame(number, RequestCode.END_TRANSACTION, header)


def check_back(server: Server, load: Path, path: Path) -> float:
    """The question about a half message: it is stored once more, and its producer is asked."""
    write_frames(path, half_sends(server.name, Store([], 0, 0)))
    with Asker(server) as asker:
        replay(load, server, path, DRAIN_S_MAX, FRAME_COUNT)
        before_s, end_s = server.cpu_s(), time.monotonic() + DRAIN_S_MAX
        while asker.asked_count < FRAME_COUNT and time.monotonic() < end_s:
            time.sleep(0.1)
        return (server.cpu_s() - before_s) / max(1, asker.asked_count) * 1e6


class Asker:
    """A producer of the group that takes replies, and counts what the broker asks it."""

    def __init__(self, server: Server) -> None:
        self.asked_count = 0
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        beat = Heartbeat(client_id=ASKER, producer_data_set=[ProducerData(group_name=GROUP)])
        self._socket.sendall(frame(1, RequestCode.HEART_BEAT, None, write_body(beat)))
        self._thread = threading.Thread(target=self._answer_all)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _answer_all(self) -> None:
        frames = FrameDecoder()
        # The other thread closes the socket when nothing more is measured.
        with suppress(ConnectionError):
            while data := self._socket.recv(1 << 18):
                commands = [decode_command(each) for each in frames.cut(data)]
                requests = [each for each in commands if not each.is_response]
                self.asked_count += len(requests)
                answers = [encode_command(reply_to(e)) for e in requests if not e.is_oneway]
                self._socket.sendall(b"".join(answers))


def delivery_of_delayed(server: Server, load: Path, path: Path) -> float:
    """Of messages that come due together, without what their sends cost."""
    return delivery(server, load, path, f"DELAY\x01{DUE_LEVEL}")


def delivery_of_timed(server: Server, load: Path, path: Path) -> float:
    due_ms = now_ms() + TIMER_MS
    return delivery(server, load, path, f"TIMER_DELIVER_MS\x01{due_ms}")


def delivery(server: Server, load: Path, path: Path, delay: str) -> float:
    write_frames(
        path,
        (
            send_frame(number, f"{stored_properties(number)}\x02{delay}", queue_id=2)
            for number in range(DELAYED_COUNT)
        ),
    )
    with BlockingPeer(address_of(server)) as peer:
        wanted = max_offset(peer, 2) + DELAYED_COUNT
        replay(load, server, path, DRAIN_S_MAX, DELAYED_COUNT)
        before_s, end_s = server.cpu_s(), time.monotonic() + DRAIN_S_MAX
        while max_offset(peer, 2) < wanted and time.monotonic() < end_s:
            time.sleep(0.1)
    return (server.cpu_s() - before_s) / DELAYED_COUNT * 1e6


def max_offset(peer: BlockingPeer, queue_id: int) -> int:
    header = GetMaxOffsetHeader(topic=TOPIC, queue_id=queue_id)
    reply = peer.call(RequestCode.GET_MAX_OFFSET, header)
    return read_header(OffsetReplyHeader, reply.fields).offset


CYCLES: Final[dict[str, Callable[[Server, Path, Path], float]]] = {
    "end of transaction": end_of_transaction,
    "delivery of a delayed message": delivery_of_delayed,
    "delivery of a timed message": delivery_of_timed,
}
OURS_ONLY: Final = ("delivery of a timed message",)  # Apache has timers from 5.0 on.
CHECK_BACK: Final = "check-back of a transaction"


# --- the table ---


def table(figures: Figures) -> Iterator[str]:
    yield "| operation | Apache, CPU us | ours | ratio |"
    yield "|---|---|---|---|"
    for name, costs in figures.items():
        ours, apache = costs.get("ours", 0.0), costs.get("Apache", 0.0)
        ratio = f"{ours / apache:.2f}" if apache else ""
        shown = f"{apache:.1f}" if apache else "-"
        yield f"| {name} | {shown} | {ours:.1f} | {ratio} |"


def write_frames(path: Path, frames: Iterable[bytes]) -> None:
    path.write_bytes(b"".join(frames))


def address_of(server: Server) -> str:
    return f"127.0.0.1:{server.port}"


def now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    main()
