"""Bugs put into a broker that runs as a process: rigs that do not find them are blind.

As a program it runs `roquet` with one of them: `python bugs.py BUG roquet broker ...`.
"""

import sys
from collections.abc import Callable
from typing import Final

import pytest

from roquet.broker.messages.acks import AckQueue
from roquet.broker.replication.replica_progress import ReplicaProgress
from roquet.cli.main import main
from roquet.net.connection import Connection


def acknowledge_before_confirmation(patch: pytest.MonkeyPatch) -> None:
    def at_once(
        _self: AckQueue, connection: Connection, _end: int, frames: bytes, _count: int
    ) -> None:
        connection.send(frames)

    patch.setattr(AckQueue, "send_when_safe", at_once)
    patch.setattr(AckQueue, "reply_when_safe", lambda _self, _request, _end, reply, _late: reply)


def take_what_was_sent_for_confirmed(patch: pytest.MonkeyPatch) -> None:
    is_awaited = ReplicaProgress.is_awaited

    def after_confirming(self: ReplicaProgress, end: int) -> bool:
        for slave in self.slaves:
            self._confirmed_end = max(self._confirmed_end, slave.sent_end)
        return is_awaited(self, end)

    patch.setattr(ReplicaProgress, "is_awaited", after_confirming)


BUGS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "acknowledge-before-confirmation": acknowledge_before_confirmation,
    "take-what-was-sent-for-confirmed": take_what_was_sent_for_confirmed,
}


def buggy(bug: str) -> tuple[str, ...]:
    """What has to stand before the words of a command, so that it has the bug."""
    assert bug in BUGS
    return (sys.executable, __file__, bug)


if __name__ == "__main__":
    BUGS[sys.argv[1]](pytest.MonkeyPatch())
    sys.argv = sys.argv[2:]
    main()
