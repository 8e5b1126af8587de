"""What was changed here, by whom and with which outcome: the newest in memory, all of it logged."""

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, final

from roquet.client.arguments import utc
from roquet.clock import Clock

log = logging.getLogger(__name__)

ENTRY_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    time: datetime
    # The user, if there is a login, and where the request came from.
    user: str | None
    remote: str
    change: str
    # Why it failed; None if it was made.
    error: str | None = None


@final
class Audit:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[AuditEntry] = deque(maxlen=ENTRY_COUNT_MAX)

    def note(self, user: str | None, remote: str, change: str, error: str | None = None) -> None:
        entry = AuditEntry(utc(self._clock.now_ms()), user, remote, change, error)
        self._entries.append(entry)
        outcome = "done" if error is None else f"failed: {error}"
        log.info("change by %s from %s: %s: %s", user or "anonymous", remote, change, outcome)

    def __iter__(self) -> Iterator[AuditEntry]:
        """The newest comes first."""
        return reversed(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
