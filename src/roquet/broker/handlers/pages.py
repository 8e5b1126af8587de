"""Tables page by page, as 5.5 asks for them; 4.9 wants everything at once."""

from typing import TypeVar

from roquet.protocol.bodies.body import DataVersion, read_body

T = TypeVar("T")


def page(
    table: dict[str, T],
    version: DataVersion,
    start: int | None,
    count: int | None,
    known_version: str | None,
) -> dict[str, T]:
    """The entries from `start` on in the order of their names, or all if no page was asked for.

    Pages of different versions do not fit together: whoever began with a version other than
    `version` gets the first page again. Raises BadBody if `known_version` is not one at all.
    """
    if start is None or count is None:
        return table
    if not known_version or read_body(DataVersion, known_version.encode()) != version:
        start = 0
    start = max(0, start)
    return {name: table[name] for name in sorted(table)[start : start + max(0, count)]}
