"""The selected view, and how keys change it: values only, no terminal."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from roquet.cli.admin_commands.listing import in_order, is_match
from roquet.cli.top import samples
from roquet.cli.top.samples import Sample
from roquet.reporting import ReportTable


class TopView(Enum):
    TOPICS = "topics"
    GROUPS = "groups"
    BROKERS = "brokers"


class TopKey(Enum):
    TOPICS = "t"
    GROUPS = "g"
    BROKERS = "b"
    UP = "up"
    DOWN = "down"
    OPEN = "open"
    BACK = "back"
    SORT = "s"
    REVERSE = "r"
    PAUSE = " "
    FILTER = "/"
    END = "q"


_VIEWS: Final = {
    TopKey.TOPICS: TopView.TOPICS,
    TopKey.GROUPS: TopView.GROUPS,
    TopKey.BROKERS: TopView.BROKERS,
}
_TABLES: Final = {
    TopView.TOPICS: samples.topics_table,
    TopView.GROUPS: samples.groups_table,
    TopView.BROKERS: samples.brokers_table,
}
# The column that has what needs attention: the rate, the lag, the problem.
_WORST: Final = {TopView.TOPICS: 1, TopView.GROUPS: 3, TopView.BROKERS: 7}
_DETAILS: Final = {
    TopView.TOPICS: samples.topic_details,
    TopView.GROUPS: samples.group_details,
    TopView.BROKERS: samples.broker_details,
}


@dataclass(frozen=True, slots=True)
class Board:
    """`opened` is the row whose details are shown. `row` is an index, wherever rows move."""

    view: TopView = TopView.GROUPS
    opened: str | None = None
    row: int = 0
    # None starts with the worst.
    sort_by: int | None = None
    is_reversed: bool = False
    is_paused: bool = False
    is_ended: bool = False
    # Only rows whose names contain it, or match it if it has * or ?. Keys may be its text.
    filter: str = ""
    is_typing: bool = False

    @property
    def sort_column(self) -> int:
        if self.sort_by is not None:
            return self.sort_by
        return 0 if self.opened is not None else _WORST[self.view]

    @property
    def is_of_brokers(self) -> bool:
        """Whether nothing else has to be asked for."""
        return self.view is TopView.BROKERS and self.opened is None

    def table(self, before: Sample | None, now: Sample) -> ReportTable:
        if self.opened is not None:
            return in_order(
                _DETAILS[self.view](now, self.opened),
                self.sort_column,
                is_reversed=self.is_reversed,
            )
        whole = _TABLES[self.view](before, now)
        rows = [row for row in whole.rows if is_match(str(row[0]), self.filter)]
        return in_order(whole._replace(rows=rows), self.sort_column, is_reversed=self.is_reversed)

    def after(self, key: TopKey, table: ReportTable) -> "Board":
        """`table` is what is shown while the key is pressed."""
        last = max(0, len(table.rows) - 1)
        match key:
            case TopKey.TOPICS | TopKey.GROUPS | TopKey.BROKERS:
                return Board(_VIEWS[key], is_paused=self.is_paused)
            case TopKey.UP:
                return replace(self, row=max(0, min(self.row, last) - 1))
            case TopKey.DOWN:
                return replace(self, row=min(last, self.row + 1))
            case TopKey.OPEN:
                return self._opened(table)
            case TopKey.BACK:
                kept = "" if self.opened is None else self.filter
                return Board(self.view, is_paused=self.is_paused, filter=kept)
            case TopKey.FILTER:
                return replace(self, is_typing=self.opened is None)
            case TopKey.SORT:
                return replace(self, sort_by=(self.sort_column + 1) % len(table.columns))
            case TopKey.REVERSE:
                return replace(self, is_reversed=not self.is_reversed)
            case TopKey.PAUSE:
                return replace(self, is_paused=not self.is_paused)
            case TopKey.END:
                return replace(self, is_ended=True)

    def after_typing(self, press: bytes) -> "Board":
        """Enter keeps the filter, Escape drops it."""
        match press:
            case b"\r" | b"\n":
                return replace(self, is_typing=False)
            case b"\x1b":
                return replace(self, filter="", is_typing=False)
            case b"\x7f" | b"\b":
                return replace(self, filter=self.filter[:-1], row=0)
        # Names have ASCII letters only.
        text = press.decode("ascii", "ignore")
        return replace(self, filter=self.filter + text, row=0) if text.isprintable() else self

    def _opened(self, table: ReportTable) -> "Board":
        if self.opened is not None or not table.rows:
            return self
        name = str(table.rows[min(self.row, len(table.rows) - 1)][0])
        return Board(self.view, opened=name, is_paused=self.is_paused, filter=self.filter)
