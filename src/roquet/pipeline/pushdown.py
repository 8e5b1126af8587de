"""Filters of a Spark query as conditions, for both formats: `limits` has what is read for them.

Only with `filterPushdown`: Spark 4.3 keeps one plan for a DataFrame, that of the last filtered
query, and uses it for every other query of this DataFrame that it plans later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from roquet.pipeline.limits import Condition, ReadLimits, Test, limits_of

# Filters of a later Spark are not among them.
_TESTS: Final[Mapping[type[Filter], Test]] = {
    EqualTo: Test.EQUAL,
    EqualNullSafe: Test.EQUAL_NULL_SAFE,
    GreaterThan: Test.GREATER,
    GreaterThanOrEqual: Test.AT_LEAST,
    LessThan: Test.LESS,
    LessThanOrEqual: Test.AT_MOST,
    In: Test.IN,
    IsNull: Test.IS_NULL,
    IsNotNull: Test.IS_NOT_NULL,
    StringStartsWith: Test.STARTS_WITH,
    StringEndsWith: Test.ENDS_WITH,
    StringContains: Test.CONTAINS,
}


class LimitedReader(Protocol):
    """A reader that can read less."""

    def limited(self, limits: ReadLimits) -> "LimitedReader": ...

    def partitions(self) -> Sequence[InputPartition]: ...

    def read(self, partition: InputPartition) -> Iterator[Any]: ...


@final
class PushdownReader(DataSourceReader):
    """Reads what the filters of the query leave. Spark pickles it after `pushFilters`."""

    def __init__(self, reader: LimitedReader) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._reader = self._reader.limited(limits_of(conditions_of(filters)))
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)


def conditions_of(filters: Iterable[Filter]) -> Iterator[Condition]:
    """Of whole columns; filters of a field inside of one are left out."""
    for each in filters:
        bare, is_negated = each, False
        while isinstance(bare, Not):
            bare, is_negated = bare.child, not is_negated
        path: tuple[str, ...] = getattr(bare, "attribute", ())
        if len(path) == 1 and type(bare) in _TESTS:
            value = getattr(bare, "value", None)
            yield Condition(path[0], _TESTS[type(bare)], value, is_negated)
