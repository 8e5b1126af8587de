"""What a consumer wants of a topic: everything, some tags, or what an SQL92 expression selects.

A broker compares tags by their Java hash, which it finds in the consume queue. Equal hashes
are not always equal tags, so a consumer compares the texts as well. SQL92 is compiled in
`sql_filter`; here it is a text.
"""

from enum import StrEnum
from typing import Final

import msgspec

from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.java_hash import java_hash

ALL_TAGS: Final = "*"
EXPRESSION_SIZE_MAX: Final = 65536

TAG_SEPARATOR: Final = "||"
# Java trims exactly these; tags may start or end with other blanks.
_BLANKS: Final = "".join(map(chr, range(0x21)))
_TAG_CODE_MIN: Final = -(2**31)


class ExpressionType(StrEnum):
    TAG = "TAG"
    SQL92 = "SQL92"


class Subscription(msgspec.Struct, frozen=True):
    """What of a topic is wanted: everything, some tags, or what an SQL92 expression picks.

    For example:

        Subscription("orders", "new || paid", tags=("new", "paid"))
    """

    topic: str
    expression: str = ALL_TAGS
    expression_type: ExpressionType = ExpressionType.TAG
    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()
    # The newest subscription of a group wins; Java takes the time in milliseconds.
    version: int = 0

    @property
    def is_all(self) -> bool:
        return self.expression == ALL_TAGS and self.expression_type is ExpressionType.TAG

    def matches_code(self, code: int) -> bool:
        """Whether a message with this tag code may match; SQL92 does not use codes."""
        return (
            code in self.codes
            or not self.codes
            # Such a number is no hash but the address of an extension we do not read.
            or code < _TAG_CODE_MIN
        )

    def matches_tags(self, tags: str | None) -> bool:
        """Whether a message with these tags matches."""
        return not self.tags or tags in self.tags


def parse_subscription(
    topic: str, expression: str | None, expression_type: str | None = None, version: int = 0
) -> Subscription:
    """Reads what peers send; an absent expression means all, an absent type means tags.

    Raises BadExpression or TooLarge.
    """
    if expression and len(expression) > EXPRESSION_SIZE_MAX:
        raise TooLarge("subscription expression", len(expression), EXPRESSION_SIZE_MAX)
    match expression_type or ExpressionType.TAG:
        case ExpressionType.TAG:
            return _tag_subscription(topic, expression, version)
        case ExpressionType.SQL92:
            if not expression:
                raise BadExpression("an SQL92 expression is empty")
            return Subscription(topic, expression, ExpressionType.SQL92, version=version)
        case unknown:
            raise BadExpression(f"expression type {unknown!r} is unknown")


def _tag_subscription(topic: str, expression: str | None, version: int) -> Subscription:
    if not expression or expression == ALL_TAGS:
        return Subscription(topic, version=version)
    stripped = (tag.strip(_BLANKS) for tag in expression.split(TAG_SEPARATOR))
    tags = tuple(dict.fromkeys(filter(None, stripped)))
    if not tags:
        raise BadExpression(f"{expression[:100]!r} names no tag")
    codes = frozenset(map(java_hash, tags))
    return Subscription(topic, expression, ExpressionType.TAG, tags, codes, version)
