"""What is attacked, and the real bytes that attacks begin with.

A target takes any bytes. It returns, or raises a ProtocolError; whatever else comes out of it is a
mistake of ours.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Raw

from roquet.access.acl_file import read_document, rules_of
from roquet.access.errors import BadRules
from roquet.protocol.catalog import CATALOG, decode_reply, decode_request
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, decode_command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.messages.batch import decode_batch, unwrap
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.messages.record import peek_record, read_record, split_records, verify_record
from roquet.protocol.messages.record_filter import RecordFilter
from roquet.protocol.sql_filter import compile_filter
from tests.fuzz import grpc_targets
from tests.support.accounts import ACCOUNTS
from tests.support.golden_frames import golden_frames
from tests.support.golden_records import golden_records
from tests.support.records import PLAIN_DRAFT, changed, record_of

_DECOMPRESSED_SIZE_MAX = 1 << 20
_CODES = sorted(CATALOG)


class Target(NamedTuple):
    attack: Callable[[bytes], None]
    corpus: Callable[[], Iterable[bytes]]


def _frames(data: bytes) -> None:
    """The first byte says where the network cut the rest."""
    frames = FrameDecoder()
    cut = data[0] if data else 0
    for piece in (data[1 : 1 + cut], data[1 + cut :]):
        for frame in frames.cut(piece):
            with suppress(ProtocolError):
                decode_request(decode_command(frame))


def _headers(data: bytes) -> None:
    """The first two bytes choose a request."""
    decode_request(Command(_code(data), fields=Raw(data[2:])))


def _bodies(data: bytes) -> None:
    decode_request(Command(_code(data), body=data[2:]))


def _replies(data: bytes) -> None:
    decode_reply(_code(data), Command(ResponseCode.SUCCESS, body=data[2:]))


def _records(data: bytes) -> None:
    with suppress(ProtocolError):
        verify_record(data, peek_record(data))
    with suppress(ProtocolError):
        split_records(data)
    record = read_record(data)
    with suppress(ProtocolError):
        unwrap(record)
    record.decompressed_body(_DECOMPRESSED_SIZE_MAX)


def _batches(data: bytes) -> None:
    decode_batch(data)


def _filters(data: bytes) -> None:
    compile_filter(data.decode(errors="replace")).matches({"a": "1", "b": "x"})


def _filtered(data: bytes) -> None:
    """The first byte says how long the expression is; a record follows, or its properties."""
    cut = data[0] if data else 0
    compiled = compile_filter(data[1 : 1 + cut].decode(errors="replace"))
    wanted = RecordFilter(compiled.program, lambda _: False)
    wanted(data[1 + cut :])
    wanted(record_of(changed(PLAIN_DRAFT, properties=data[1 + cut :][:PROPERTIES_SIZE_MAX])))


def _accounts(data: bytes) -> None:
    with suppress(BadRules):
        rules_of({Path("accounts"): read_document(data)})


def _code(data: bytes) -> int:
    return _CODES[int.from_bytes(data[:2]) % len(_CODES)]


def _with_code(code: int, data: bytes) -> bytes:
    return _CODES.index(code).to_bytes(2) + data


@cache
def _requests() -> list[Command]:
    found = [each.command for each in golden_frames() if each.kind != "response"]
    return [command for command in found if command.code in CATALOG]


# `make fuzz` reads the names as words.
TARGETS = {
    "frames": Target(_frames, lambda: (b"\x40" + each.data for each in golden_frames())),
    "headers": Target(
        _headers, lambda: (_with_code(each.code, bytes(each.fields)) for each in _requests())
    ),
    "bodies": Target(
        _bodies, lambda: (_with_code(each.code, each.body) for each in _requests() if each.body)
    ),
    "replies": Target(
        _replies,
        lambda: (
            _with_code(each.request_code, each.command.body)
            for each in golden_frames()
            if each.kind == "response" and each.request_code in CATALOG
        ),
    ),
    "records": Target(_records, lambda: (each.data for each in golden_records())),
    "batches": Target(
        _batches, lambda: (each.body for each in _requests() if each.code == 320 and each.body)
    ),
    "filters": Target(
        _filters,
        lambda: (
            b"a > 1 AND b = 'it''s' OR NOT c IS NULL",
            b"price BETWEEN 1.5 AND 2e3 AND region IN ('a', 'b') -- end",
        ),
    ),
    "filtered-records": Target(
        _filtered, lambda: (b"\x1aTAGS = 'a' OR KEYS > 1.5   " + r.data for r in golden_records())
    ),
    "accounts": Target(_accounts, lambda: (ACCOUNTS.encode(),)),
    "http2": Target(grpc_targets.http2, grpc_targets.http2_corpus),
    "hpack": Target(grpc_targets.hpack, grpc_targets.hpack_corpus),
    "grpc-messages": Target(grpc_targets.messages, grpc_targets.messages_corpus),
    "sent-messages": Target(grpc_targets.sent_messages, grpc_targets.sent_messages_corpus),
    "grpc-acks": Target(grpc_targets.acks, grpc_targets.acks_corpus),
    "shown-records": Target(
        grpc_targets.shown_as_stored, lambda: (each.data for each in golden_records())
    ),
    "proxy-headers": Target(grpc_targets.proxy_headers, grpc_targets.proxy_headers_corpus),
}
