r"""JSON as the Java side writes it, made strict.

    {0:"10.0.0.1:10911"}              ->  {"0":"10.0.0.1:10911"}
    {{"queueId":1,"topic":"t"}:5}     ->  {"{\"queueId\":1,\"topic\":\"t\"}":5}
    {"a":{"n":1},"b":{"$ref":"$.a"}}  ->  {"a":{"n":1},"b":{"n":1}}
    {"a":null}                        ->  {}

Java's library writes integer and object keys bare, and an object it meets twice as a
reference to the first place. Null means absent, on both sides. Nothing here knows
what a body means. All work is linear in the size of the text.
"""

import re
from typing import Any, Final, final

import msgspec

from roquet.protocol.errors import BadBody

# Texts and bare keys. The offsets of a broker that just fit into a frame have 1.5 million; a
# hostile body keeps us busy for a second or two and no longer.
TOKEN_COUNT_MAX: Final = 2_000_000
NESTING_DEPTH_MAX: Final = 64
# What references may add to a body: each can name an object that holds many more of them.
REFERENCED_SIZE_MAX: Final = 1024 * 1024

# What msgspec raises for bytes that are not the JSON it expects.
JSON_ERRORS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

# No quantifier here gives back what it took, and a text that never ends is taken whole:
# a hostile body cannot make the search start over.
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"?+'
_TOKENS: Final = re.compile(
    _STRING + rb"|(?<![\d-])-?\d++(?=\s*+:)"  # an integer key
    rb'|\{(?:[^{}"]++|' + _STRING + rb")*+\}(?=\s*+:)",  # an object key; it holds no other objects
    re.DOTALL,
)
_QUOTED_INTEGER_KEY: Final = re.compile(rb'(?<=[{,])"(-?\d++)":')
_STEP: Final = r"\.((?:[^.\[\\]|\\.)++)|\[(\d{1,9})\]"
_REFERENCE: Final = re.compile(rf"\$(?:{_STEP})*+", re.DOTALL)
_REFERENCE_STEP: Final = re.compile(_STEP, re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def strict_json(data: bytes) -> bytes:
    """Strict JSON without references and nulls, if `data` is JSON in Java's dialect.

    May return other bytes that are not JSON as they are. Raises BadBody when a limit is
    exceeded or a reference leads nowhere.
    """
    try:
        text, token_count = _TOKENS.subn(_quoted, data, TOKEN_COUNT_MAX)
        if token_count == TOKEN_COUNT_MAX:
            raise BadBody("JSON", f"more than {TOKEN_COUNT_MAX} texts and bare keys")
        if b"null" not in text and not has_reference(text):
            return text
        values = msgspec.json.decode(text)
        return msgspec.json.encode(_Expansion(values).copy(values))
    except JSON_ERRORS as error:
        raise BadBody("JSON", str(error)) from None


def has_reference(data: bytes) -> bool:
    """Whether `data` may hold references; if not, strict JSON can be decoded as it is."""
    # Not `in`, which tries first whether the text is a number, and fails by an error.
    return data.find(b'"$ref"') >= 0


def with_bare_integer_keys(strict: bytes) -> bytes:
    """Compact JSON with its integer keys unquoted, as the name server writes to old clients."""
    # A quote right after `{` or `,` opens a text: were it the end of one, no key could follow.
    return _QUOTED_INTEGER_KEY.sub(rb"\1:", strict)


def _quoted(match: re.Match[bytes]) -> bytes:
    token = match[0]
    match token[:1]:
        case b'"':
            return token
        case b"{":
            return msgspec.json.encode(token.decode())
        case _:
            return b'"%b"' % token


@final
class _Expansion:
    """Copies decoded JSON with references replaced by what they name, and without nulls."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._enclosing: list[object] = []
        self._referenced_size = 0

    def copy(self, value: Any) -> object:
        if type(value) is dict:
            if _is_reference(value):
                return self._follow(value["$ref"])
            self._enter(value)
            members = {name: self.copy(member) for name, member in value.items()}
            self._enclosing.pop()
            return {name: member for name, member in members.items() if member is not None}
        if type(value) is list:
            self._enter(value)
            items = [self.copy(item) for item in value]
            self._enclosing.pop()
            return items
        return value

    def _enter(self, value: object) -> None:
        if len(self._enclosing) == NESTING_DEPTH_MAX:
            raise BadBody("JSON", f"nested deeper than {NESTING_DEPTH_MAX}")
        self._enclosing.append(value)

    def _follow(self, reference: str) -> object:
        """What `reference` names; None if that encloses the reference and so has no end."""
        target = self._target(reference)
        if any(target is value for value in self._enclosing):
            return None
        self._referenced_size += len(msgspec.json.encode(target))
        if self._referenced_size > REFERENCED_SIZE_MAX:
            raise BadBody("JSON", f"references add more than {REFERENCED_SIZE_MAX} bytes")
        return self.copy(target)

    def _target(self, reference: str) -> object:
        # "@" and ".." name what stands around the reference; so does the root, which is at hand.
        path = "$" if reference in ("@", "..") else reference
        if not _REFERENCE.fullmatch(path):
            raise BadBody("JSON", f"{path!r:.100} is not a reference")
        target: Any = self._root
        try:
            for name, index in _REFERENCE_STEP.findall(path):
                # Entries of integer-keyed maps are named like items of arrays.
                key = index or _ESCAPED.sub(r"\1", name)
                target = target[int(key)] if type(target) is list else target[key]
        except (LookupError, TypeError, ValueError):
            raise BadBody("JSON", f"reference {path!r:.100} leads nowhere") from None
        if _is_reference(target):
            raise BadBody("JSON", f"reference {path!r:.100} names a reference")
        return target


def _is_reference(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str)
