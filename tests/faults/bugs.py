"""Bugs put into a broker that runs as a process: rigs that do not find them are blind.

As a program it runs `roquet` with one of them: `python bugs.py BUG roquet broker ...`.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from roquet.broker.messages.acks import AckQueue
from roquet.broker.pop.in_flight import InFlight, PopKey
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.ordered_queue import OrderedQueue
from roquet.broker.replication.replica_progress import ReplicaProgress
from roquet.cli.main import main
from roquet.net.connection import Connection
from roquet.protocol.codes import ResponseCode


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


def answer_pops_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def answer(
        _self: AckQueue, connection: Connection, _end: int, frames: bytes, count: int, _late: Any
    ) -> None:
        connection.send_deferred(frames, count)

    def settle(_self: AckQueue, _end: int, then: Callable[[ResponseCode], None], _: Any) -> None:
        then(ResponseCode.SUCCESS)

    patch.setattr(AckQueue, "answer_when_safe", answer)
    patch.setattr(AckQueue, "when_settled", settle)


def write_no_acks(patch: pytest.MonkeyPatch) -> None:
    def note(self: PopJournal, key: PopKey, offsets: Sequence[int]) -> int:
        point = self.in_flight.find(key)
        if point is not None:
            self.in_flight.ack(point, offsets)
        return self._store.log_end

    patch.setattr(PopJournal, "note_acks", note)


def write_no_acks_in_order(patch: pytest.MonkeyPatch) -> None:
    def note(self: PopJournal, ordered: OrderedQueue, offsets: Sequence[int]) -> int:
        ordered.finish(offsets, self.steady_ms)
        return self._store.log_end

    patch.setattr(PopJournal, "note_ordered_acks", note)


def forget_what_is_out(patch: pytest.MonkeyPatch) -> None:
    load = PopJournal.load

    def load_positions(self: PopJournal) -> None:
        load(self)
        self.in_flight = InFlight()

    patch.setattr(PopJournal, "load", load_positions)


def redeliver_before_the_time(patch: pytest.MonkeyPatch) -> None:
    steady_ms = vars(PopJournal)["steady_ms"].fget
    patch.setattr(PopJournal, "steady_ms", property(lambda self: steady_ms(self) + 300))


BUGS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "acknowledge-before-confirmation": acknowledge_before_confirmation,
    "take-what-was-sent-for-confirmed": take_what_was_sent_for_confirmed,
}
# Those that have to do with pops.
POP_BUGS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "write-no-acks": write_no_acks,
    "write-no-acks-in-order": write_no_acks_in_order,
    "forget-what-is-out": forget_what_is_out,
    "redeliver-before-the-time": redeliver_before_the_time,
    "answer-pops-before-the-sync": answer_pops_before_the_sync,
}
_ALL: Final = {**BUGS, **POP_BUGS}


def buggy(bug: str) -> tuple[str, ...]:
    """What has to stand before the words of a command, so that it has the bug."""
    assert bug in _ALL
    return (sys.executable, __file__, bug)


if __name__ == "__main__":
    _ALL[sys.argv[1]](pytest.MonkeyPatch())
    sys.argv = sys.argv[2:]
    main()
