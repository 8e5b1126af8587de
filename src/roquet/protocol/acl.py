"""Access control of 4.x on the wire: rights, in the words of Apache's `plain_acl.yml`, and
signatures of requests, HMAC-SHA1 over all header values and the body.

The signed values are in the order of their names, without names or separators between them. That
is weak (a text may move from one field to its neighbour unnoticed) but what all clients send.
Which account has which rights is the broker's business.
"""

from base64 import b64encode
from collections.abc import Mapping
from enum import IntFlag
from types import ModuleType
from typing import Final

import msgspec

from roquet.protocol.codes import VERSION_4_9_3, VERSION_OURS
from roquet.protocol.errors import BadRight
from roquet.protocol.fields import Header, fields_text, header_texts


class Right(IntFlag):
    """An account has all of its bits; a need for several is met by one of them."""

    DENY = 0
    PUB = 1
    SUB = 2

    def suffices_for(self, needed: "Right") -> bool:
        return bool(self & needed)


EITHER: Final = Right.PUB | Right.SUB

_WORDS: Final = {
    "DENY": Right.DENY,
    "PUB": Right.PUB,
    "SUB": Right.SUB,
    "PUB|SUB": EITHER,
    "SUB|PUB": EITHER,
}


def read_right(text: str) -> Right:
    """Raises BadRight. Apache takes any other text for DENY; a misspelled right is an error."""
    right = _WORDS.get(text.strip())
    if right is None:
        raise BadRight(text)
    return right


ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
_SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105  The name of a field.

# Added to a request after it was signed.
_NEVER_SIGNED: Final = frozenset({SIGNATURE, "__ZONE_NAME", "__ZONE_MODE"})
# Clients sign this one from 4.9.4 on.
_LATELY_SIGNED: Final = "_UNIQUE_KEY_QUERY"


def signed_fields(
    header: Header, body: bytes, access_key: str, secret: str, security_token: str | None = None
) -> msgspec.Raw:
    """The fields of a request of ours, signed."""
    texts = header_texts(header)
    texts[ACCESS_KEY] = access_key
    if security_token is not None:
        texts[_SECURITY_TOKEN] = security_token
    texts[SIGNATURE] = sign(signed_bytes(texts, body, VERSION_OURS), secret)
    return fields_text(texts)


def signed_bytes(fields: Mapping[str, str], body: bytes, version: int) -> bytes:
    """The bytes that a client of this version signs."""
    names = [name for name in fields if name not in _NEVER_SIGNED]
    if version <= VERSION_4_9_3 and _LATELY_SIGNED in fields:
        names.remove(_LATELY_SIGNED)
    # Java sorts by UTF-16 code units, which differs from code points beyond the basic plane.
    names.sort(key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return b"".join([_utf8(fields[name]) for name in names]) + body


def sign(content: bytes, secret: str) -> str:
    return b64encode(_hmac().digest(_utf8(secret), content, "sha1")).decode()


def has_valid_signature(fields: Mapping[str, str], body: bytes, version: int, secret: str) -> bool:
    """Whether the field `Signature` is right; takes the same time whatever is wrong with it."""
    expected = sign(signed_bytes(fields, body, version), secret)
    found = _utf8(fields.get(SIGNATURE, ""))
    return bool(_hmac().compare_digest(expected.encode(), found))


def load_signing() -> None:
    """For servers that check signatures, so that no request waits for the import."""
    _hmac()


def _hmac() -> ModuleType:
    """Loaded late: most peers sign nothing, and start faster without it."""
    import hmac  # noqa: PLC0415

    return hmac


def _utf8(text: str) -> bytes:
    # Like Java, a question mark for a lone surrogate.
    return text.encode("utf-8", "replace")
