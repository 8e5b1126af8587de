"""The first attempt of the fast way, in whichever thread, and any attempt of the sender make the
same frames."""

import asyncio
import string
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from hypothesis import given, strategies as st

from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import Route
from roquet.client.config import ProducerConfig
from roquet.client.names import wrapped
from roquet.client.producer.outgoing import Ready, bare_ready, outgoing_of
from roquet.client.producer.queue_choice import ANYWHERE
from roquet.client.producer.receipt import ProducerStatistics
from roquet.client.producer.sender import Sender
from roquet.client.queue_ref import QueueRef
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.messages.message import Message
from tests.support.fake_clock import FakeClock

OPAQUE = 7
MESSAGE_ID = "0" * 32

texts = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1)
names = st.text(string.ascii_letters, min_size=1, max_size=20)
# Others are refused before there is a frame.
one_tag = texts.filter(lambda text: text == text.strip() and "||" not in text)
messages = st.builds(
    Message,
    names,
    st.binary(min_size=1, max_size=200),
    tags=st.none() | one_tag,
    keys=st.lists(names).map(tuple),
    properties=st.dictionaries(st.text("abc", min_size=1), texts),
    flag=st.integers(-(2**31), 2**31 - 1),
)
configs = st.builds(
    ProducerConfig,
    name_server=st.just("127.0.0.1:9876"),
    group=names,
    namespace=st.none() | names,
    fast_port=st.booleans(),
    new_topic_queue_count=st.integers(1, 100),
)


class Connections:
    """One broker, to which there is an open connection; keeps what is sent to it."""

    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open
        self.frames: list[tuple[str, bytes]] = []
        self._address = ""
        self.is_signed = False
        self.peers = self

    def open_connection(self, address: str) -> "Connections | None":
        self._address = address
        return self if self._is_open else None

    async def connect(self, _address: str) -> None:
        """Nothing to do: a call opens what it needs."""

    def begin_call(self, _code: int, frame_of: Callable[[int], bytes], *_times: float) -> object:
        self.frames.append((self._address, frame_of(OPAQUE)))
        return object()

    async def call_by(
        self, _code: int, frame_of: Callable[[int], bytes], _timeout_s: float
    ) -> Command:
        self.frames.append((self._address, frame_of(OPAQUE)))
        return _stored()

    async def call(
        self, address: str, code: RequestCode, header: Header, _timeout_s: float, body: bytes
    ) -> Command:
        command = Command(code, fields=fields_of(header), body=body, opaque=OPAQUE)
        self.frames.append((address, encode_command(command)))
        return _stored()


def _stored() -> Command:
    header = SendMessageReplyHeader(msg_id="1", queue_id=3, queue_offset=0)
    return Command(ResponseCode.SUCCESS, fields=fields_of(header))


def new_sender(config: ProducerConfig, topic: str, connections: Connections) -> Sender:
    """Of one that knows the only queue of the topic."""
    queue = QueueRef(wrapped(config.namespace, topic), "a", 3)
    route = cast("Route", SimpleNamespace(queues=[queue], masters={"a": "127.0.0.1:10911"}))
    instance = SimpleNamespace(
        routes=SimpleNamespace(known=lambda _topic: route),
        peers=connections,
        requests=connections,
    )
    clock = FakeClock()
    return Sender(config, cast("ClientInstance", instance), clock, ProducerStatistics())


async def fast_frames(config: ProducerConfig, ready: Ready) -> list[tuple[str, bytes]]:
    connections = Connections(is_open=True)
    sender = new_sender(config, ready.message.topic, connections)
    assert sender.fast_sends is not None
    assert sender.fast_sends.start(ready, 3.0, 0.0) is not None
    return connections.frames


async def thread_frames(config: ProducerConfig, ready: Ready) -> list[tuple[str, bytes]]:
    sender = new_sender(config, ready.message.topic, Connections(is_open=True))
    assert sender.fast_sends is not None
    path = sender.fast_sends.next_path(ready)
    assert path is not None
    return [(path.address, sender.fast_sends.frame_of(path, ready)(OPAQUE))]


async def general_frames(
    config: ProducerConfig, ready: Ready, *, is_open: bool
) -> list[tuple[str, bytes]]:
    connections = Connections(is_open=is_open)
    sender = new_sender(config, ready.message.topic, connections)
    deadline_s = asyncio.get_running_loop().time() + 60
    await sender.send(outgoing_of(ready, config), ANYWHERE, deadline_s)
    return connections.frames


@given(messages, configs)
def test_fast_and_general_attempts_make_the_same_frames(
    message: Message, config: ProducerConfig
) -> None:
    ready = bare_ready(message, MESSAGE_ID, config)
    fast = asyncio.run(fast_frames(config, ready))
    assert len(fast) == 1
    assert fast == asyncio.run(thread_frames(config, ready))
    assert fast == asyncio.run(general_frames(config, ready, is_open=True))
    assert fast == asyncio.run(general_frames(config, ready, is_open=False))
