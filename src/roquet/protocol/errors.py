"""Errors of a peer.

RoquetError
└── ProtocolError            the peer's fault, always
    ├── BadFrame             the stream cannot be trusted any more: close the connection
    ├── BadHeader            the command header of one frame is unreadable: close the connection
    ├── BadHeaderField       a field is missing or unreadable: refuse the request
    ├── BadBody              a body is not of the type of its code: refuse the request
    ├── BadMessage           a stored message or batch is malformed
    ├── TooLarge             a named limit is exceeded
    ├── BadRight             a text that is not a right of an account
    └── BadExpression        a tag or SQL92 subscription cannot be parsed or compiled
"""

from roquet.errors import RoquetError


class ProtocolError(RoquetError):
    """Bytes or values that break the protocol."""


class BadFrame(ProtocolError):
    """The length, serializer or header size of a frame is impossible."""


class BadHeader(ProtocolError):
    """A command header is not readable in the serializer it claims."""


class BadHeaderField(ProtocolError):
    """A request or reply header lacks a field, or its text is not of the field's type."""

    def __init__(self, header: str, field: str, text: str | None) -> None:
        found = "is missing" if text is None else f"cannot be {text!r}"
        super().__init__(f"{header}: field {field!r} {found}")
        self.header = header
        self.field = field
        self.text = text


class BadBody(ProtocolError):
    """A body cannot be read as the type of its request code."""

    def __init__(self, body: str, reason: str) -> None:
        super().__init__(f"{body}: {reason}")
        self.body = body
        self.reason = reason


class BadMessage(ProtocolError):
    """A record, batch item, property text or message id is malformed."""


class TooLarge(ProtocolError):
    """A named limit is exceeded; nothing was allocated for it."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} of {size} is over the limit of {limit}")
        self.what = what
        self.size = size
        self.limit = limit


class BadRight(ProtocolError):
    """A text that is not a right of an account."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:100]!r} is not a right: DENY, PUB, SUB or PUB|SUB")
        self.text = text


class BadExpression(ProtocolError):
    """A subscription expression cannot be parsed or compiled."""
