"""Members that left consumer groups: who they were, and when they left.

    group -> client id -> its address, and when it left

Shown while a group has no member at all, to the operator who asks since when, and which programs
have to be started. Kept for a day, and the table survives a restart:

    config/pastMembers.json   {"groups":{"billing":[{"clientId":"10.0.0.7@41", "left":17000, ...}]}}
"""

from collections.abc import Callable
from typing import Final, final

from roquet.broker.tables.clients import Client
from roquet.broker.tables.saving import do_nothing
from roquet.clock import Clock
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.clients import PastMember, PastMemberTable

KEPT_MS: Final = 86_400_000
# The group that was left first makes room, and in a group the member that left first.
GROUP_COUNT_MAX: Final = 1_000
MEMBER_COUNT_MAX: Final = 8


@final
class PastMembers:
    """Belongs to the event loop. A member that returns stays until it leaves again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Both in the order in which members left last.
        self._groups: dict[str, dict[str, PastMember]] = {}
        self.change_count = 0
        self.on_change: Callable[[], None] = do_nothing

    def note(self, group: str, client: Client) -> None:
        """It has just left the group."""
        members = self._groups.pop(group, {})
        members.pop(client.client_id, None)
        members[client.client_id] = PastMember(
            client_addr=client.address,
            client_id=client.client_id,
            language=client.language,
            left=self._clock.now_ms(),
            version=client.version,
        )
        if len(members) > MEMBER_COUNT_MAX:
            del members[next(iter(members))]
        self._groups[group] = members
        if len(self._groups) > GROUP_COUNT_MAX:
            del self._groups[next(iter(self._groups))]
        self._changed()

    def of(self, group: str) -> list[PastMember]:
        """Those that left within the last day; the last one to leave comes last."""
        oldest_ms = self._clock.now_ms() - KEPT_MS
        return [each for each in self._groups.get(group, {}).values() if each.left >= oldest_ms]

    def forget(self, group: str) -> None:
        """It was deleted."""
        if self._groups.pop(group, None) is not None:
            self._changed()

    def to_bytes(self) -> bytes:
        groups = {group: left for group in self._groups if (left := self.of(group))}
        return write_body(PastMemberTable(groups=groups))

    def load(self, data: bytes) -> list[str]:
        """Nothing is left out. Raises BadBody."""
        groups = list(read_body(PastMemberTable, data).groups.items())[-GROUP_COUNT_MAX:]
        self._groups = {
            group: {each.client_id: each for each in left[-MEMBER_COUNT_MAX:]}
            for group, left in groups
        }
        return []

    def _changed(self) -> None:
        self.change_count += 1
        self.on_change()
