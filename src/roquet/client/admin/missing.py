"""The brokers that answers in part are without, and why."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from roquet.client.errors import RequestRefused, Unreachable


@dataclass(frozen=True, slots=True)
class MissingBroker:
    """A broker that answers of `Admin.partial` are without, or whose part may be incomplete."""

    broker_name: str
    address: str
    error: Unreachable | RequestRefused

    @property
    def reason(self) -> str:
        return self.error.reason if isinstance(self.error, Unreachable) else str(self.error)


@final
class MissingBrokers:
    """By broker name; of each the first failure."""

    def __init__(self) -> None:
        self._by_name: dict[str, MissingBroker] = {}
        # By address. One that hangs is waited for once, not once for each topic.
        self._unreachable: dict[str, MissingBroker] = {}
        # Whether those are noted that name servers have lost. One asks, the others wait for it.
        self.has_lost = False
        self.looking_for_lost = asyncio.Lock()

    def __iter__(self) -> Iterator[MissingBroker]:
        return (self._by_name[name] for name in sorted(self._by_name))

    def note(self, broker: MissingBroker) -> None:
        self._by_name.setdefault(broker.broker_name, broker)

    def note_unreachable(self, broker: MissingBroker) -> None:
        """It is not asked again."""
        self.note(broker)
        self._unreachable.setdefault(broker.address, broker)

    def unreachable(self, address: str) -> MissingBroker | None:
        return self._unreachable.get(address)
