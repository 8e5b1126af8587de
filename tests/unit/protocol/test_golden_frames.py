"""Every frame that real peers exchanged is read into typed values and written back."""

from collections.abc import Iterator
from typing import Any

import pytest

from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.brokers import TimerCheckpoint, write_timer_checkpoint
from roquet.protocol.bodies.name_server import (
    BrokerRegistration,
    write_compressed_registration,
)
from roquet.protocol.catalog import DecodedCommand, decode_reply, decode_request
from roquet.protocol.codes import RequestCode as Code
from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import field_texts, fields_of, header_texts, read_header
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.properties_text import write_properties_text
from tests.support.golden_frames import FRAME_COUNT, FRAMES_DIR, GoldenFrame, golden_frames
from tests.support.records import written_again

# Belong to no header: signatures, and the mark of a 5.x client that reads a stream.
FIELDS_OF_NO_HEADER = {"AccessKey", "Signature", "ReqT"}
# Always written by Java, but these two requests were made by hand.
DEFAULTS_LEFT_OUT = {("acladm_s49#31", "admin"), ("pop_s55_c55#25", "suspend")}
# The body is the user's own, or (906) two braces in a request made by hand.
OPAQUE_BODIES = {
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
    Code.EXCHANGE_BROKER_HA_INFO,
}

scenarios = pytest.mark.parametrize("scenario", sorted(p.stem for p in FRAMES_DIR.glob("*.jsonl")))


def frames_of(scenario: str) -> Iterator[GoldenFrame]:
    return (frame for frame in golden_frames() if frame.scenario == scenario)


def decoded(golden: GoldenFrame, command: Command) -> DecodedCommand:
    if command.is_response:
        return decode_reply(golden.request_code, command)
    return decode_request(command)


def test_no_recorded_frame_is_left_out() -> None:
    assert len(golden_frames()) == FRAME_COUNT
    assert len({frame.place for frame in golden_frames()}) == FRAME_COUNT


@scenarios
def test_every_frame_is_written_back_byte_for_byte(scenario: str) -> None:
    for golden in frames_of(scenario):
        assert encode_command(golden.command) == golden.data, golden.place


@scenarios
def test_every_typed_header_says_what_was_received(scenario: str) -> None:
    for golden in frames_of(scenario):
        command = golden.command
        header, _ = decoded(golden, command)
        known_names = set(header.__struct_encode_fields__)
        received = {
            name: text for name, text in field_texts(command.fields).items() if name in known_names
        }
        written = header_texts(header)
        added = {(golden.place, name) for name in written.keys() - received.keys()}
        assert added <= DEFAULTS_LEFT_OUT
        assert received.items() <= written.items(), golden.place
        assert read_header(type(header), fields_of(header)) == header, golden.place


def test_only_these_fields_are_in_no_header() -> None:
    unknown: set[str] = set()
    for golden in golden_frames():
        command = golden.command
        if command.is_response and command.code != 0:
            continue  # A refusal repeats what it likes.
        header, _ = decoded(golden, command)
        unknown |= field_texts(command.fields).keys() - set(header.__struct_encode_fields__)
    assert unknown == FIELDS_OF_NO_HEADER


@scenarios
def test_every_typed_body_survives_being_written_and_read_again(scenario: str) -> None:
    for golden in frames_of(scenario):
        command = golden.command
        body = decoded(golden, command).body
        assert (body is None) == (command.body == b""), golden.place
        if body is not None:
            original = command.body
            command.body = body_bytes(body, command)
            assert decoded(golden, command).body == body, golden.place
            if has_one_spelling(body):
                assert command.body == original, golden.place


def test_only_these_bodies_are_bytes_we_do_not_look_into() -> None:
    opaque = {
        golden.request_code
        for golden in golden_frames()
        if isinstance(decoded(golden, golden.command).body, bytes)
    }
    assert opaque == OPAQUE_BODIES


def test_refusals_carry_no_body() -> None:
    refusals = [g for g in golden_frames() if g.kind == "response" and g.command.code != 0]
    assert len(refusals) > 300
    assert not [g.place for g in refusals if decoded(g, g.command).body is not None]


def body_bytes(body: Any, command: Command) -> bytes:
    match body:
        case bytes():
            return bytes(body)
        case dict():
            return write_properties_text(body)
        case TimerCheckpoint():
            return write_timer_checkpoint(body)
        case BrokerRegistration() if not command.body.startswith(b"{"):
            return write_compressed_registration(body, command.version)
        case [BatchItem(), *_]:
            return encode_batch(body)
        case [StoredMessage(), *_]:
            return b"".join(map(written_again, body))
    return write_body(body)


def has_one_spelling(body: Any) -> bool:
    """Binary forms have; JSON, lines of settings and zlib do not."""
    return isinstance(body, TimerCheckpoint) or (
        isinstance(body, list) and isinstance(body[0], BatchItem | StoredMessage)
    )
