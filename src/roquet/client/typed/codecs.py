"""The codecs that follow from a type: JSON, by msgspec or pydantic, and protocol buffers.

pydantic and protobuf are extras, so they are imported by the first topic that needs them, and only
here. Their types are recognised by their methods: no library is loaded for it.
"""

from typing import Any, Final, Generic, Protocol, TypeVar, final

import msgspec

from roquet.client.errors import BadArgument

T = TypeVar("T")

_JSON: Final = "application/json"


class Codec(Protocol[T]):
    """Bytes from values and back; `content_type` names the format for readers.

    For example:

        class Text:
            content_type = "text/plain"

            def encode(self, value: str) -> bytes:
                return value.encode()

            def decode(self, body: bytes) -> str:
                return body.decode()

        notes = Topic("notes", str, codec=Text())
    """

    @property
    def content_type(self) -> str: ...

    def encode(self, value: T, /) -> bytes:
        """Raises TypeError or ValueError for what it cannot write."""

    def decode(self, body: bytes, /) -> T:
        """Raises ValueError for anything that is no such value."""


def codec_for(kind: type[T]) -> Codec[T]:
    """Raises BadArgument for a type that none of them knows."""
    if hasattr(kind, "model_validate_json"):
        return PydanticCodec(kind)
    if hasattr(kind, "SerializeToString"):
        return ProtobufCodec(kind)
    return JsonCodec(kind)


@final
class JsonCodec(Generic[T]):
    """Structs of msgspec, dataclasses, TypedDicts, attrs classes and what they are made of.

    Unknown fields are ignored, so that a sender may add some. A missing one without a default, or a
    value of the wrong type, is an error.
    """

    content_type: str = _JSON

    def __init__(self, kind: type[T]) -> None:
        try:
            self._decoder = msgspec.json.Decoder(kind)
        except TypeError as error:
            text = f"{kind!r} cannot be read from JSON: {error}; give a `codec`"
            raise BadArgument(text, "codec") from error
        self._encoder = msgspec.json.Encoder()

    def encode(self, value: T) -> bytes:
        return self._encoder.encode(value)

    def decode(self, body: bytes) -> T:
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(str(error)) from error


@final
class PydanticCodec(Generic[T]):
    """Models of pydantic. Its ValidationError is a ValueError."""

    content_type: str = _JSON

    def __init__(self, kind: type[T]) -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415

        self._adapter: TypeAdapter[T] = TypeAdapter(kind)

    def encode(self, value: T) -> bytes:
        return self._adapter.dump_json(value, by_alias=True)

    def decode(self, body: bytes) -> T:
        return self._adapter.validate_json(body)


@final
class ProtobufCodec(Generic[T]):
    """Generated classes of protocol buffers."""

    content_type: str = "application/x-protobuf"

    def __init__(self, kind: type[T]) -> None:
        from google.protobuf.message import DecodeError, EncodeError  # noqa: PLC0415

        self._class: Any = kind
        self._decode_error = DecodeError
        self._encode_error = EncodeError

    def encode(self, value: Any) -> bytes:
        try:
            body: bytes = value.SerializeToString()
        except self._encode_error as error:
            raise ValueError(str(error)) from error
        return body

    def decode(self, body: bytes) -> T:
        try:
            value: T = self._class.FromString(body)
        except self._decode_error as error:
            raise ValueError(str(error)) from error
        return value
