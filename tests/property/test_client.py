"""Decisions of the client for any input: parts of a batch, queues, room, properties."""

import asyncio
import string

from hypothesis import given, settings, strategies as st

from roquet.client.config import ProducerConfig
from roquet.client.producer.batching import cut_to_size, outgoing_batch, size_of
from roquet.client.producer.outgoing import RESERVED_NAMES, Ready, property_text
from roquet.client.producer.queue_choice import FaultTable, out_time_s, pick_queue, queue_of_key
from roquet.client.producer.window import Window
from roquet.client.queue_ref import QueueRef
from roquet.protocol.messages.batch import decode_batch
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.properties import parse_properties

CONFIG = ProducerConfig(name_server="127.0.0.1:9876", group="shop")

texts = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1)
messages = st.builds(
    Message,
    st.just("orders"),
    st.binary(min_size=1, max_size=200),
    tags=st.none() | texts,
    keys=st.lists(st.text(string.ascii_letters, min_size=1)).map(tuple),
    properties=st.dictionaries(texts.filter(lambda name: name not in RESERVED_NAMES), texts),
    flag=st.integers(-(2**31), 2**31 - 1),
)
queues = st.lists(
    st.builds(QueueRef, st.just("t"), st.sampled_from("abc"), st.integers(0, 7)),
    min_size=1,
    unique=True,
)
turns = st.integers(0, 2**40)


def ready(message: Message, number: int = 0) -> Ready:
    return Ready(message, f"{number:032X}", property_text(message, f"{number:032X}", {}, None))


@given(messages)
def test_properties_survive_a_round_trip_as_they_were_set(message: Message) -> None:
    found = parse_properties(ready(message).properties)
    assert found.pop("UNIQ_KEY") == "0" * 32
    # A program may say itself whether the broker waits for its disk.
    assert found == {"WAIT": "true"} | message.all_properties()


@given(st.lists(messages, max_size=20), st.integers(1, 2000))
def test_parts_of_a_batch_fit_and_lose_nothing(given_messages: list[Message], size: int) -> None:
    batch = [ready(message, number) for number, message in enumerate(given_messages)]
    parts = list(cut_to_size(batch, size))
    assert [each for part in parts for each in part] == batch
    for part in parts:
        outgoing = outgoing_batch(part, CONFIG)
        assert len(outgoing.body) == sum(map(size_of, part))
        assert len(part) == 1 or len(outgoing.body) <= size
        assert [item.body for item in decode_batch(outgoing.body)] == [
            each.message.body for each in part
        ]


@given(queues, turns, st.none() | st.sampled_from("abc"))
def test_a_queue_is_always_found_and_elsewhere_if_there_is_an_elsewhere(
    given_queues: list[QueueRef], turn: int, failed_broker: str | None
) -> None:
    queue = pick_queue(given_queues, turn, failed_broker)
    assert queue in given_queues
    if any(each.broker_name != failed_broker for each in given_queues):
        assert queue.broker_name != failed_broker


@given(queues, st.text() | st.integers(-(2**63), 2**63 - 1))
def test_a_key_always_leads_to_the_same_queue(given_queues: list[QueueRef], key: str | int) -> None:
    assert queue_of_key(given_queues, key) == queue_of_key(list(given_queues), key)


@given(
    queues,
    st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 40_000), st.booleans())),
    turns,
    st.floats(0, 700),
)
def test_available_brokers_come_first_whatever_happened(
    given_queues: list[QueueRef],
    notes: list[tuple[str, float, bool]],
    turn: int,
    now_s: float,
) -> None:
    faults = FaultTable()
    for broker, latency_ms, has_failed in notes:
        faults.note(broker, latency_ms, 0.0, has_failed=has_failed)
    available = [each for each in given_queues if faults.is_available(each.broker_name, now_s)]
    assert faults.pick(given_queues, turn, now_s) in (available or given_queues)


@given(st.floats(0, 100_000), st.floats(0, 100_000))
def test_the_slower_broker_never_stays_out_for_less(one_ms: float, other_ms: float) -> None:
    assert out_time_s(min(one_ms, other_ms)) <= out_time_s(max(one_ms, other_ms))


@settings(max_examples=100)  # Each example runs an event loop of its own.
@given(
    st.integers(1, 4),
    st.integers(1, 20),
    st.lists(st.tuples(st.sampled_from(["enter", "leave", "give up"]), st.integers(0, 25))),
)
def test_the_window_keeps_its_bounds_and_lets_everybody_in_in_the_end(
    count_max: int, size_max: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_walk(Window(count_max, size_max), count_max, size_max, steps))


async def _walk(
    window: Window, count_max: int, size_max: int, steps: list[tuple[str, int]]
) -> None:
    inside: list[int] = []
    waiting: list[asyncio.Task[None]] = []

    async def enter(size: int) -> None:
        await window.enter(size, 60)
        inside.append(size)

    for action, number in steps:
        if action == "enter":
            waiting.append(asyncio.create_task(enter(number)))
        elif action == "leave" and inside:
            window.leave(inside.pop(number % len(inside)))
        elif action == "give up" and waiting:
            waiting.pop(number % len(waiting)).cancel()
        for _ in range(5):  # Whoever was awoken runs.
            await asyncio.sleep(0)
        assert (window.count, window.size) == (len(inside), sum(inside))
        assert window.count <= count_max
        assert window.size <= size_max or window.count == 1
    while inside or window.waiting_count:
        assert inside, "somebody waits for nobody"
        window.leave(inside.pop())
        for _ in range(5):
            await asyncio.sleep(0)
    await asyncio.gather(*waiting)
