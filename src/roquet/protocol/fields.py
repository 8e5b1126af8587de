"""Typed request and reply headers, and the map of texts they travel as.

On the wire every header value is a text: "17", "true", "TopicA". A header is
declared once as a `Header`; reading and writing follow from the declaration.
None is absent; everything else is written, defaults too, as Java does.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Final, TypeVar, cast

import msgspec

from roquet.protocol.errors import BadHeader, BadHeaderField
from roquet.protocol.lenient_json import JSON_ERRORS

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

NO_FIELDS: Final = msgspec.Raw(b"")  # the member `extFields` is absent
EMPTY_FIELDS: Final = msgspec.Raw(b"{}")


class Header(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of every request and reply header; wire names are the attribute names in camel case."""


class NoFields(Header):
    """A request or reply without header fields."""


class AddressedHeader(Header, kw_only=True):
    """What 5.x adds to most requests: the broker and the namespace they are meant for.

    The fields serve its proxies and static topics. They are inherited because they are one
    declaration on the other side, too; a header that never carries them derives from `Header`.
    Keyword only, so that a subclass may start with its mandatory fields.
    """

    broker_name: str | None = msgspec.field(name="bname", default=None)
    namespace: str | None = msgspec.field(name="ns", default=None)
    is_namespaced: bool | None = msgspec.field(name="nsd", default=None)
    is_oneway: bool | None = msgspec.field(name="oway", default=None)


class TopicAddressedHeader(AddressedHeader, kw_only=True):
    is_logical: bool | None = msgspec.field(name="lo", default=None)


H = TypeVar("H", bound=Header)


@cache
def header_reader(header_type: type[H]) -> Callable[[msgspec.Raw], H]:
    """The function that reads a `header_type`. It raises BadHeaderField or BadHeader."""
    decode = msgspec.json.Decoder(header_type, strict=False).decode

    def read(fields: msgspec.Raw) -> H:
        try:
            # Java leaves out `extFields` where there are none: in every heartbeat.
            return decode(fields or EMPTY_FIELDS)
        except JSON_ERRORS:
            # Rare, so it may be slow: what Java reads and msgspec does not, or a real mistake.
            return _read_leniently(header_type, field_texts(fields))

    return read


def read_header(header_type: type[H], fields: msgspec.Raw) -> H:
    # The cache hides the link between argument and result from the type checker.
    return cast("H", header_reader(header_type)(fields))


def header_texts(header: Header) -> dict[str, str]:
    """The map of texts that `header` travels as."""
    return _texts(msgspec.to_builtins(header))


def fields_of(header: Header | None) -> msgspec.Raw:
    """What goes into `Command.fields`."""
    return EMPTY_FIELDS if header is None else fields_text(header_texts(header))


def fields_text(texts: Mapping[str, str]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(texts))


def field_texts(fields: msgspec.Raw) -> dict[str, str]:
    """The map of texts; like Java, numbers become texts and nulls are dropped."""
    if not fields:
        return {}
    try:
        return _texts(_decode_values(fields) or {})
    except JSON_ERRORS as error:
        raise BadHeader(f"extFields is not a map of texts: {error}") from None


_decode_values = msgspec.json.Decoder(dict[str, str | int | float | bool | None] | None).decode


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {
        name: value if type(value) is str else _text(value)
        for name, value in values.items()
        if value is not None
    }


def _text(value: object) -> str:
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


def _read_leniently(header_type: type[H], texts: Mapping[str, str]) -> H:
    values: dict[str, object] = {}
    for field in _declared_fields(header_type):
        name = field.encode_name
        text = texts.get(name)
        is_text = field.type in _TEXT_TYPES
        # An empty text is how the binary form spells null.
        if text is None or (text == "" and not is_text):
            if field.required:
                raise BadHeaderField(header_type.__name__, name, text)
            continue
        try:
            value = text if is_text else _as_java_reads(text, field.type)
            values[name] = msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError:
            raise BadHeaderField(header_type.__name__, name, text[:100]) from None
    return msgspec.convert(values, header_type)


# Inspecting the declaration takes longer than everything else that is done with it.
_declared_fields: Final = cache(msgspec.structs.fields)
_TEXT_TYPES: Final = (str, str | None)
_BOOL_TYPES: Final = (bool, bool | None)


def _as_java_reads(text: str, field_type: object) -> object:
    """Java takes "08" and "+8" for 8, and every text but "true" for false."""
    if field_type in _BOOL_TYPES:
        return text.lower() == "true"
    digits = text[1:] if text[0] in "+-" else text
    if digits.isascii() and digits.isdigit() and len(digits) < 20:
        return int(text)
    return text
