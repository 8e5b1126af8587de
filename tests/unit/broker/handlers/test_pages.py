"""Tables page by page."""

import pytest

from roquet.broker.handlers.answers import page
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.errors import BadBody

TABLE = {"b": 2, "d": 4, "a": 1, "c": 3}
VERSION = DataVersion(counter=7, timestamp=5)
SAME = '{"counter":7,"stateVersion":0,"timestamp":5}'
OTHER = '{"counter":6,"stateVersion":0,"timestamp":5}'


@pytest.mark.parametrize(
    ("start", "count", "known_version", "names"),
    [
        (None, None, None, "bdac"),
        (0, None, SAME, "bdac"),
        (0, 2, None, "ab"),
        (0, 2, "", "ab"),
        (0, 2, SAME, "ab"),
        (2, 2, SAME, "cd"),
        (3, 2, SAME, "d"),
        (4, 2, SAME, ""),
        (2, 2, OTHER, "ab"),
        (2, 2, "", "ab"),
        (-3, 2, SAME, "ab"),
        (0, -1, SAME, ""),
    ],
)
def test_a_page_is_a_part_of_the_table_in_the_order_of_names(
    start: int | None, count: int | None, known_version: str | None, names: str
) -> None:
    found = page(TABLE, VERSION, start, count, known_version)
    assert list(found) == list(names)
    assert found.items() <= TABLE.items()


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(BadBody):
        page(TABLE, VERSION, 0, 1, "what?")
