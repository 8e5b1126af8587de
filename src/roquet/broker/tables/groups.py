"""The consumer groups of a broker, in memory and as `subscriptionGroup.json`.

The table works like that of the topics: it belongs to the event loop, reports and counts its
changes, writes them ahead where there are epochs, and never changes a setting in place.
Connected clients are in `clients.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, final

from msgspec.structs import replace

from roquet.broker.errors import (
    BadName,
    BadQueueCount,
    NoMoreGroups,
    TableNotWritten,
    UnknownGroup,
)
from roquet.broker.tables.attributes import changed_attributes
from roquet.broker.tables.saving import do_nothing
from roquet.broker.tables.topics import QUEUE_COUNT_MAX, write_nothing
from roquet.broker.tables.versions import changed, gives_way, in_part, is_later, led
from roquet.clock import Clock
from roquet.protocol import names
from roquet.protocol.bodies.body import DataVersion, read_body, write_body
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigTable


@final
class GroupTable:
    """`find(group)` is a bare look-up in a dict, because every pull does it.

    `on_change` is called after every change except a load, `write_ahead` before each change that
    this broker makes itself; see `TopicTable`.
    """

    __slots__ = (
        "_clock",
        "_forbidden",
        "_groups",
        "_has_epochs",
        "_is_masters",
        "change_count",
        "find",
        "on_change",
        "version",
        "write_ahead",
    )

    def __init__(
        self,
        clock: Clock,
        built_in: Iterable[str] = names.BUILT_IN_GROUPS,
        *,
        has_epochs: bool = False,
    ) -> None:
        """With epochs it is that of a master until `lead`."""
        self._clock = clock
        self._has_epochs = self._is_masters = has_epochs
        self.write_ahead: Callable[[str, GroupConfig | None, DataVersion], None] = write_nothing
        # Filled and emptied, never replaced: `find` is bound to it.
        self._groups = {group: GroupConfig(group_name=group) for group in built_in}
        self.find: Final[Callable[[str], GroupConfig | None]] = self._groups.get
        # 5.x keeps it in the same file. We obey nothing of it, but do not lose it.
        self._forbidden: dict[str, dict[str, int]] = {}
        self.version = DataVersion(timestamp=clock.now_ms())
        self.change_count = 0
        self.on_change: Callable[[], None] = do_nothing

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(tuple(self._groups.values()))

    def lead(self, epoch: int) -> None:
        """From now on this is the table of the master of that epoch."""
        self._is_masters = False
        self._became(led(self.version, epoch, self._clock.now_ms()))

    def find_or_create(
        self, group: str, *, may_create: bool, count_max: int | None = None
    ) -> GroupConfig:
        """Groups of the system are made even without `may_create`.

        Raises BadName and UnknownGroup, and NoMoreGroups if there are `count_max` of them.
        """
        found = self._groups.get(group)
        if found is not None:
            return found
        if may_create or group.startswith(names.SYSTEM_GROUP_PREFIX):
            if count_max is not None and len(self._groups) >= count_max:
                raise NoMoreGroups(count_max)
            # Readers go on while nothing can be stored; a later master makes the same group.
            return self._put(GroupConfig(group_name=group), unwritten_if=(TableNotWritten,))
        raise UnknownGroup(group)

    def update(self, group: GroupConfig) -> GroupConfig:
        """An operator's change; its attributes are changes to the present ones.

        Raises BadName, BadQueueCount and BadAttributes.
        """
        # The topic of its retries will have as many queues.
        if not 0 <= group.retry_queue_nums <= QUEUE_COUNT_MAX:
            raise BadQueueCount(group.retry_queue_nums, QUEUE_COUNT_MAX)
        old = self._groups.get(group.group_name)
        attributes = changed_attributes(old.attributes if old else {}, group.attributes)
        return self._put(replace(group, attributes=attributes))

    def delete(self, group: str) -> bool:
        """Whether it was there."""
        if group not in self._groups:
            return False
        version = self._next_version()
        self.write_ahead(group, None, version)
        del self._groups[group]
        self._forbidden.pop(group, None)
        self._became(version)
        return True

    def snapshot(self) -> GroupConfigTable:
        """For slaves and operators."""
        return GroupConfigTable(
            data_version=self.version,
            forbidden_table=dict(self._forbidden),
            subscription_group_table=dict(self._groups),
        )

    def follow(self, table: GroupConfigTable) -> list[str]:
        """Takes over what the master has, if that has changed; returns what was left out."""
        if not gives_way(self.version, table.data_version, has_epochs=self._has_epochs):
            return []
        for group in self._groups.keys() - table.subscription_group_table.keys():
            del self._groups[group]
        left_out = self._take_over(table)
        self._became(table.data_version)
        return left_out

    def apply(self, name: str, group: GroupConfig | None, version: DataVersion) -> bool:
        """A change that a master wrote to the log, None for a deletion; whether it was news."""
        if not is_later(version, self.version):
            return False
        if group is None:
            self._groups.pop(name, None)
            self._forbidden.pop(name, None)
        elif names.is_name(name):
            self._groups[name] = replace(group, group_name=name)
        self._became(in_part(version))
        return True

    def forget_version(self) -> None:
        """The log was cut: changes that it lost are in the table. What it has left counts again."""
        self.version = in_part(DataVersion())

    def to_bytes(self) -> bytes:
        """The content of `subscriptionGroup.json`."""
        return write_body(self.snapshot())

    def load(self, data: bytes) -> list[str]:
        """Lays the content of `subscriptionGroup.json` over the built-in groups.

        Returns what was left out because no group may be called that. Raises BadBody, and then
        nothing has changed.
        """
        return self._take_over(read_body(GroupConfigTable, data))

    def _take_over(self, table: GroupConfigTable) -> list[str]:
        left_out = []
        for name, group in table.subscription_group_table.items():
            if names.is_name(name):
                self._groups[name] = replace(group, group_name=name)
            else:
                left_out.append(name)
        self._forbidden = table.forbidden_table
        self.version = table.data_version
        return left_out

    def _put(
        self, group: GroupConfig, unwritten_if: tuple[type[TableNotWritten], ...] = ()
    ) -> GroupConfig:
        if not names.is_name(group.group_name):
            raise BadName(group.group_name)
        version = self._next_version()
        with suppress(*unwritten_if):
            self.write_ahead(group.group_name, group, version)
        self._groups[group.group_name] = group
        self._became(version)
        return group

    def _next_version(self) -> DataVersion:
        if self._is_masters:
            return in_part(self.version)
        return changed(self.version, self._clock.now_ms())

    def _became(self, version: DataVersion) -> None:
        self.version = version
        self.change_count += 1
        self.on_change()
