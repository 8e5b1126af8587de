"""One frame as one line of JSON, for people and for `jq`.

What the frame means is looked up in the catalog. What cannot be read that way is shown as it
is: header fields as texts, a body as text or base64.
"""

import base64
from typing import Final, NamedTuple, final

import msgspec

from roquet.cli.frames.frame_source import RecordedFrame
from roquet.protocol.bodies.body import write_body
from roquet.protocol.catalog import decode_reply, decode_request
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, decode_command
from roquet.protocol.errors import BadBody, ProtocolError
from roquet.protocol.fields import NoFields, field_texts
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.lenient_json import JSON_ERRORS, strict_json
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.properties import parse_properties

# Requests whose response may still come; a connection has far fewer in flight.
REQUESTS_REMEMBERED_MAX: Final = 100_000

_JSON_FIRST_BYTES: Final = (b"{", b"[")
_SPACING: Final = str.maketrans("", "", "\t\n\r")
_REQUEST_NAMES: Final = {code.value: code.name for code in RequestCode}
_RESPONSE_NAMES: Final = {code.value: code.name for code in ResponseCode}


class FrameLine(NamedTuple):
    """One frame as text, and what is wrong with it; the text is there if anything is readable."""

    line: str | None
    problem: str | None = None


@final
class FrameViewer:
    """Sees the frames of one recording in order, so it knows what a response answers."""

    def __init__(self) -> None:
        self._request_codes: dict[int, int] = {}  # by opaque, oldest first

    def view(self, recorded: RecordedFrame) -> FrameLine:
        try:
            command = decode_command(recorded.frame)
        except ProtocolError as error:
            return FrameLine(None, str(error))
        request_code = recorded.request_code
        if not command.is_response:
            self._remember(command)
        elif request_code is None:
            request_code = self._request_codes.pop(command.opaque, None)
        return _view_of(command, request_code)

    def _remember(self, request: Command) -> None:
        if request.is_oneway:
            return
        codes = self._request_codes
        codes.pop(request.opaque, None)
        codes[request.opaque] = request.code
        if len(codes) > REQUESTS_REMEMBERED_MAX:
            del codes[next(iter(codes))]


def _view_of(command: Command, request_code: int | None) -> FrameLine:
    problem = None
    try:
        content = _content(command, request_code)
    except ProtocolError as error:
        problem = str(error)
        content = {
            "problem": problem,
            "other_fields": _unread_fields(command),
            "body": _bytes_view(command.body),
        }
    members = _envelope(command, request_code) | content
    present = {name: value for name, value in members.items() if value is not None}
    return FrameLine(msgspec.json.encode(present).decode(), problem)


def _envelope(command: Command, request_code: int | None) -> dict[str, object]:
    """The fields of every command."""
    names = _RESPONSE_NAMES if command.is_response else _REQUEST_NAMES
    return {
        "kind": _kind(command),
        "code": command.code,
        "name": names.get(command.code),
        "request_code": request_code if command.is_response else None,
        "request_name": _REQUEST_NAMES.get(request_code or 0) if command.is_response else None,
        "opaque": command.opaque,
        "serializer": "JSON" if command.serializer == SERIALIZER_JSON else "ROCKETMQ",
        "language": command.language,
        "version": command.version,
        "remark": command.remark,
    }


def _kind(command: Command) -> str:
    if command.is_response:
        return "response"
    return "oneway" if command.is_oneway else "request"


def _content(command: Command, request_code: int | None) -> dict[str, object]:
    """The header and body of this code. Raises ProtocolError if they do not fit it."""
    if not command.is_response:
        header, body = decode_request(command)
    elif request_code is not None:
        header, body = decode_reply(request_code, command)
    else:
        header, body = NoFields(), command.body or None
    known_names = header.__struct_encode_fields__
    texts = field_texts(command.fields)
    return {
        "fields": {
            name: value
            for name, value in msgspec.structs.asdict(header).items()
            if value is not None
        },
        "other_fields": {k: v for k, v in texts.items() if k not in known_names} or None,
        "body": _body_view(body, command.body),
    }


def _unread_fields(command: Command) -> object:
    try:
        return field_texts(command.fields) or None
    except ProtocolError:
        return _bytes_view(bytes(command.fields))


def _body_view(body: object, data: bytes) -> object:
    match body:
        case None:
            return None
        case bytes():
            return _bytes_view(body)
        case list() if body and isinstance(body[0], StoredMessage | BatchItem):
            return [_message_view(item) for item in body]
        case _ if data[:1] in _JSON_FIRST_BYTES:
            # As it came, with the members that our types do not know.
            return _json_view(data)
        case _:
            return _json_view(write_body(body))


def _json_view(data: bytes) -> object:
    try:
        return msgspec.json.decode(strict_json(data))
    except JSON_ERRORS as error:
        raise BadBody("JSON", str(error)) from None


def _message_view(item: StoredMessage | BatchItem) -> dict[str, object]:
    if isinstance(item, BatchItem):
        return {
            "flag": item.flag,
            "properties": parse_properties(item.properties.decode(errors="replace")),
            "body": _bytes_view(item.body),
        }
    return {
        "message_id": item.message_id,
        "offset_id": item.offset_id,
        "topic": item.topic,
        "queue_id": item.queue_id,
        "queue_offset": item.queue_offset,
        "physical_offset": item.physical_offset,
        "size": item.size,
        "flag": item.flag,
        "sys_flag": item.sys_flag,
        "born_timestamp": item.born_timestamp,
        "born_host": str(item.born_address),
        "store_timestamp": item.store_timestamp,
        "store_host": str(item.store_address),
        "reconsume_times": item.reconsume_times,
        "prepared_transaction_offset": item.prepared_transaction_offset,
        "properties": item.properties,
        "body": _bytes_view(item.decompressed_body()),
    }


def _bytes_view(data: bytes) -> object:
    """Text if people can read it, else {"base64": ...}."""
    if not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.translate(_SPACING).isprintable():
        return text
    return {"base64": base64.b64encode(data).decode()}
