"""Addresses that need no signature, in all forms of Apache's `plain_acl.yml`.

    (blank)                     none
    *   *.*.*.*                 all
    10.0.0.1                    one
    10.0.0.1,10.0.0.7           several
    10.0.0.{1,7}                the same
    10.0.*.*   10.0.1-20.*      ranges, in any parts; omitted parts after a * are any
    fe80::{1,2}   fe80::7:*     IPv6, with the same signs

A pattern is one range of numbers for each part of an address.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, final

import msgspec

from roquet.access.errors import BadRules

_PATTERN_SIZE_MAX: Final = 1000
_PATTERN_COUNT_MAX: Final = 1000


class _Family(NamedTuple):
    separator: str
    part_count: int
    base: int
    part_max: int


_V4: Final = _Family(".", 4, 10, 255)
_V6: Final = _Family(":", 8, 16, 0xFFFF)

Range = tuple[int, int]
Pattern = tuple[Range, ...]

_ANY_V4: Final[Pattern] = ((0, 255),) * 4
_ANY_V6: Final[Pattern] = ((0, 0xFFFF),) * 8
_ALL: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")


@final
class Addresses(msgspec.Struct, frozen=True):
    """The addresses that one text names."""

    text: str = ""
    patterns: tuple[Pattern, ...] = ()

    def include(self, ip: str) -> bool:
        if not self.patterns:
            return False
        parts = _parts_of(ip)
        return any(
            len(pattern) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, pattern, strict=True))
            for pattern in self.patterns
        )


NO_ADDRESSES: Final = Addresses()


def read_addresses(text: str) -> Addresses:
    """Raises BadRules."""
    text = text.strip()
    if len(text) > _PATTERN_SIZE_MAX:
        raise BadRules(None, f"an address of {len(text)} characters")
    if not text:
        return NO_ADDRESSES
    if text in _ALL:
        return Addresses(text, (_ANY_V4, _ANY_V6))
    try:
        patterns = tuple(_pattern(each) for each in _single_texts(text))
    except ValueError:
        raise BadRules(None, f"{text[:100]!r} is neither an address nor a pattern") from None
    return Addresses(text, patterns)


def _single_texts(text: str) -> list[str]:
    """The patterns that commas and braces stand for. Raises ValueError."""
    if text.endswith("}"):
        head, brace, choices = text[:-1].rpartition("{")
        if not brace or not head.endswith((_V4.separator, _V6.separator)):
            raise ValueError
        texts = [head + choice.strip() for choice in choices.split(",")]
    else:
        texts = [each.strip() for each in text.split(",") if each.strip()]
    if not 0 < len(texts) <= _PATTERN_COUNT_MAX:
        raise ValueError
    return texts


def _pattern(text: str) -> Pattern:
    family = _V6 if _V6.separator in text else _V4
    parts = _filled(text, family)
    return tuple(_range(part, family) for part in parts)


def _filled(text: str, family: _Family) -> list[str]:
    """All parts, with those that `::` or a last `*` stands for."""
    if family is _V6 and "::" in text:
        head, _, tail = text.partition("::")
        before = head.split(":") if head else []
        after = tail.split(":") if tail else []
        missing = family.part_count - len(before) - len(after)
        if missing < 1:
            raise ValueError
        return [*before, *["0"] * missing, *after]
    parts = text.split(family.separator)
    if parts[-1] == "*":
        parts += ["*"] * (family.part_count - len(parts))
    if len(parts) != family.part_count:
        raise ValueError
    return parts


def _range(part: str, family: _Family) -> Range:
    if part == "*":
        return 0, family.part_max
    low_text, dash, high_text = part.partition("-")
    low = _number(low_text, family)
    high = _number(high_text, family) if dash else low
    if low > high:
        raise ValueError
    return low, high


def _number(text: str, family: _Family) -> int:
    if not text.isalnum() or not text.isascii():
        raise ValueError
    number = int(text, family.base)
    if number > family.part_max:
        raise ValueError
    return number


@lru_cache(maxsize=4096)
def _parts_of(ip: str) -> tuple[int, ...]:
    """The numbers of an address; none for a text that is not an address."""
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return ()
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            packed = address.packed
            return tuple(packed[at] << 8 | packed[at + 1] for at in range(0, 16, 2))
        address = address.ipv4_mapped
    return tuple(address.packed)
