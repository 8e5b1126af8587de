"""Whatever bytes come in: every parser of the protocol returns or raises a ProtocolError.

Real bytes with mistakes in them, thousands of times, and millions with ROQUET_LONG. A failure
names the seed that brings it back: ROQUET_SEED=... pytest tests/property/test_hostile_input.py
"""

import os
import secrets
import tracemalloc
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import pytest
from hypothesis import settings
from msgspec import Raw

from roquet.protocol.acl import has_valid_signature
from roquet.protocol.catalog import CATALOG, decode_reply, decode_request
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, decode_command
from roquet.protocol.compression import Compression, compress, decompress
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import field_texts
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.host import unpack_host
from roquet.protocol.messages.batch import BatchItem, decode_batch, unwrap
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.message_id import parse_offset_id, parse_unique_id
from roquet.protocol.messages.properties import (
    parse_properties,
    property_of,
    property_of_bytes,
    without_property_bytes,
)
from roquet.protocol.messages.record import peek_record, read_record, split_records, verify_record
from roquet.protocol.properties_text import read_properties_text
from roquet.protocol.record_columns import PropertiesForm, decode_records
from roquet.protocol.sql_filter import compile_filter
from roquet.protocol.subscription import parse_subscription
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.golden_records import golden_records
from tests.support.hostile_bytes import hostile_bytes

SEED = os.environ.get("ROQUET_SEED") or secrets.token_hex(4)
EXAMPLE_COUNT = settings().max_examples * 50
# Tracing makes everything several times slower.
TRACED_COUNT = EXAMPLE_COUNT // 10
# The inputs are far smaller. Whoever allocates what a size claims, comes out above this.
PEAK_SIZE_MAX = 8 * 1024 * 1024
DECOMPRESSED_SIZE_MAX = 1024 * 1024


def attack_frames(random: Random) -> None:
    data = hostile_bytes(random, [golden.data for golden in random.choices(golden_frames(), k=3)])
    frames = FrameDecoder()
    position = random.randrange(len(data) + 1)
    for piece in (data[:position], data[position:]):
        for frame in frames.cut(piece):
            decode_command(frame)


def attack_headers(random: Random) -> None:
    golden = random.choice(golden_frames())
    command = golden.command
    command.fields = Raw(hostile_bytes(random, [bytes(command.fields)]))
    decode_any(golden, command)


def attack_bodies(random: Random) -> None:
    golden = random.choice(frames_with_bodies())
    command = golden.command
    command.body = hostile_bytes(random, [command.body])
    decode_any(golden, command)


def attack_with_another_code(random: Random) -> None:
    """Headers and bodies that are in order but belong to other requests."""
    command = random.choice(golden_frames()).command
    command.fields = random.choice(golden_frames()).command.fields
    command.code = random.choice(list(CATALOG))
    decode_request(command)


def attack_with_another_reply(random: Random) -> None:
    command = random.choice(golden_frames()).command
    command.code = ResponseCode.SUCCESS
    decode_reply(random.choice(list(CATALOG)), command)


def decode_any(golden: GoldenFrame, command: Command) -> None:
    if golden.kind == "response":
        decode_reply(golden.request_code, command)
    else:
        decode_request(command)


@cache
def frames_with_bodies() -> tuple[GoldenFrame, ...]:
    return tuple(golden for golden in golden_frames() if golden.command.body)


def attack_signatures(random: Random) -> None:
    command = random.choice(golden_frames()).command
    fields = field_texts(Raw(hostile_bytes(random, [bytes(command.fields)])))
    has_valid_signature(fields, command.body, command.version, "12345678")


def attack_records(random: Random) -> None:
    data = hostile_bytes(random, record_seeds())
    random.choice(
        (
            read_record,
            split_records,
            lambda data: verify_record(data, peek_record(data)),
            lambda data: unwrap(read_record(data)),
            lambda data: read_record(data).decompressed_body(DECOMPRESSED_SIZE_MAX),
        )
    )(data)


def attack_columns(random: Random) -> None:
    data = hostile_bytes(random, record_seeds())
    starts = random.choice((None, None, [0], [random.randrange(-10, 1000)]))
    form = random.choice((PropertiesForm.STRING, PropertiesForm.MAP))
    decode_records(data, starts=starts, properties=form, check_bodies=False)


@cache
def record_seeds() -> Sequence[bytes]:
    """Single records, and a few neighbours at a time."""
    records = [golden.data for golden in golden_records()]
    return [*records, *(b"".join(records[first : first + 5]) for first in range(len(records)))]


def attack_batches(random: Random) -> None:
    item = BatchItem(random.randrange(10), random.randbytes(20), b"TAGS\x01a\x02KEYS\x01k")
    decode_batch(hostile_bytes(random, [encode_batch([item] * random.randrange(1, 5))]))


def attack_compression(random: Random) -> None:
    data = hostile_bytes(random, compressed_seeds())
    decompress(data, random.getrandbits(11) | 1, DECOMPRESSED_SIZE_MAX)


@cache
def compressed_seeds() -> Sequence[bytes]:
    """An ordinary text and a bomb in each way."""
    texts = (b"an ordinary text, an ordinary text", bytes(16 * DECOMPRESSED_SIZE_MAX))
    return [compress(text, compression) for text in texts for compression in Compression]


def attack_properties(random: Random) -> None:
    data = hostile_bytes(random, [b"TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x010A\x02", b"a\x01b"])
    text = data.decode(errors="replace")
    properties = parse_properties(text)
    for name in ("TAGS", "KEYS"):
        assert property_of(text, name) == properties.get(name)
        assert property_of_bytes(without_property_bytes(data, name.encode()), name.encode()) is None


def attack_ids(random: Random) -> None:
    data = hostile_bytes(random, [b"7F00000100002A9F0000000000001000", b"7F" * 28])
    random.choice((parse_offset_id, parse_unique_id))(data.decode(errors="replace"))


def attack_hosts(random: Random) -> None:
    unpack_host(hostile_bytes(random, [bytes(8), bytes(20)]))


def attack_subscriptions(random: Random) -> None:
    data = hostile_bytes(random, [b"a || b||c", b"*", b"a > 1 AND b = 'x'"])
    kind = random.choice((None, "TAG", "SQL92", "other"))
    parse_subscription("TopicA", data.decode(errors="replace"), kind)


def attack_filters(random: Random) -> None:
    expressions = [
        b"a > 1 AND b = 'it''s' OR NOT c IS NULL",
        b"price BETWEEN 1.5 AND 2e3 AND region IN ('a', 'b') -- end",
        b"a NOT CONTAINS 'x' OR a STARTSWITH 'y' /* why */ AND b <> TRUE",
        b"((((((((a = 1))))))))",
    ]
    text = hostile_bytes(random, expressions).decode(errors="replace")
    compile_filter(text).matches({"a": "1", "b": "x", "price": "1.7", "region": "a"})


def attack_config_texts(random: Random) -> None:
    data = hostile_bytes(random, [b"a=1\nb: 2\n# no\nc = \\u00e9\\\n  more\n", b"key value\\"])
    read_properties_text(data)


ATTACKS: dict[str, Callable[[Random], None]] = {
    name.removeprefix("attack_"): attack
    for name, attack in sorted(globals().items())
    if name.startswith("attack_")
}


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_but_protocol_errors_comes_out(name: str) -> None:
    survived_count = sum(survives(name, number) for number in range(EXAMPLE_COUNT))
    # An attack that is always refused would only ever meet the first check.
    assert survived_count > 0


@pytest.mark.parametrize("name", ATTACKS)
def test_no_size_is_believed_before_it_is_checked(name: str) -> None:
    # What is made only once, whichever attack needs it first: decoders, modules of libraries.
    for number in range(TRACED_COUNT):
        survives(name, number)
    tracemalloc.start()
    try:
        for number in range(TRACED_COUNT):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            survives(name, number)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < PEAK_SIZE_MAX, replay_of(name, number)
    finally:
        tracemalloc.stop()


def survives(name: str, number: int) -> bool:
    """Whether the attack is taken for good input. Raises only what must never be raised."""
    try:
        ATTACKS[name](Random(f"{SEED} {name} {number}"))
    except ProtocolError:
        return False
    except BaseException as error:
        error.add_note(replay_of(name, number))
        raise
    return True


def replay_of(name: str, number: int) -> str:
    return f"number {number} of {name} with ROQUET_SEED={SEED}"
