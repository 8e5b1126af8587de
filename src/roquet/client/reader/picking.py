"""What of a reply is wanted: filters are applied again behind the broker.

A broker compares hashes of tags, and "Aa" has that of "BB". By an SQL92 expression that it cannot
compile it filters nothing, so that is compiled here first, and every message it let pass is looked
at again, at a few microseconds each. What a 4.9 does not know of 5.x, such as CONTAINS, ends its
reading of the expression, and then mostly nothing passes: that cannot be made good here.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, final

from roquet.client.errors import BadArgument
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.properties import parse_properties
from roquet.protocol.messages.record import peek_record
from roquet.protocol.messages.record_picking import pick_records
from roquet.protocol.sql_filter import compile_filter
from roquet.protocol.subscription import ExpressionType, Subscription

_INNER_BATCH = SysFlag.INNER_BATCH.value


class Picked(NamedTuple):
    """`whole_end` is the first offset of the range that the broker brought no record of."""

    records: bytes
    record_count: int
    whole_end: int


@final
class Picker:
    """Raises BadArgument for an expression that cannot be compiled."""

    def __init__(self, subscription: Subscription) -> None:
        self.is_filter = not subscription.is_all
        self._tags = frozenset(tag.encode() for tag in subscription.tags) or None
        self._matches: Callable[[Mapping[str, str]], bool] | None = None
        if subscription.expression_type is ExpressionType.SQL92:
            try:
                self._matches = compile_filter(subscription.expression).matches
            except (BadExpression, TooLarge) as error:
                raise BadArgument(f"{subscription.expression!r}: {error}") from None

    def pick(self, records: bytes, begin: int, end: int) -> Picked:
        """Of records those with offsets from `begin` to before `end`. Raises BadMessage."""
        picked = Picked(*pick_records(records, begin, end, self._tags))
        if self._matches is None or not picked.record_count:
            return picked
        return self._that_match(picked, self._matches)

    def _that_match(self, picked: Picked, matches: Callable[[Mapping[str, str]], bool]) -> Picked:
        records = picked.records
        kept: list[bytes] = []
        position = 0
        while position < len(records):
            head = peek_record(records, position)
            end = position + head.size
            properties = records[head.properties_start : head.properties_end]
            # Messages inside of a record have properties of their own.
            if head.sys_flag & _INNER_BATCH or matches(
                parse_properties(properties.decode(errors="replace"))
            ):
                kept.append(records[position:end])
            position = end
        if len(kept) == picked.record_count:
            return picked
        return Picked(b"".join(kept), len(kept), picked.whole_end)
