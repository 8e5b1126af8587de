"""The tables of a broker that live in files, each with its saver."""

import msgspec

from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.request_modes import RequestModes
from roquet.broker.tables.saving import Saver
from roquet.broker.tables.topics import TopicTable
from roquet.protocol.bodies.body import DataVersion
from roquet.settings.changes import ChangedSettings


class Savers(msgspec.Struct, frozen=True):
    """One for each state file. `levels` and `timers` save how far delayed messages are."""

    topics: Saver
    groups: Saver
    offsets: Saver
    levels: Saver
    timers: Saver
    past_members: Saver
    request_modes: Saver
    settings: Saver

    @property
    def all(self) -> tuple[Saver, ...]:
        return msgspec.structs.astuple(self)


class Tables(msgspec.Struct):
    """Belong to the event loop."""

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    request_modes: RequestModes
    changed_settings: ChangedSettings
    savers: Savers
    # Tools that keep a copy of the configuration compare it.
    config_version: DataVersion = msgspec.field(default_factory=DataVersion)
