"""The matrix of queues and the members that read them."""

from dataclasses import replace
from datetime import timedelta

from roquet.client.admin.groups import (
    ClientConnection,
    MemberInfo,
    MemberQueue,
    MemberSilent,
    MessageInHand,
)
from roquet.client.admin.progress import QueueProgress
from roquet.client.queue_ref import QueueRef
from roquet.dashboard.pages.members import matrix_of, members_of

QUEUES = [QueueRef("orders", "a", number) for number in range(3)]
PROGRESS = [QueueProgress(each, 10, 4, 4, None, None) for each in QUEUES]
READ = MemberQueue(4, 2, is_locked=False, last_pull=None, last_consumed=None)
CLIENTS = [ClientConnection(name, "10.0.0.1:1", "JAVA", 409) for name in ("one", "two")]


def info(*queues: QueueRef) -> MemberInfo:
    return MemberInfo({}, {}, dict.fromkeys(queues, READ), {})


def test_a_row_has_a_cell_for_each_member_and_what_it_holds() -> None:
    held = MessageInHand(QUEUES[1], 4, "ID", None, timedelta(seconds=9))
    infos = {"one": info(QUEUES[0]), "two": replace(info(QUEUES[1]), in_hand=(held,))}
    members = members_of(CLIENTS, infos)
    assert [each.number for each in members] == [1, 2]
    first, second, third = matrix_of(PROGRESS, members, "CLUSTERING")
    assert [each is not None for each in first.cells] == [True, False]
    (_, cell) = second.cells
    assert cell is not None
    assert cell.in_hand == held
    assert (third.reader_count, third.is_unread) == (0, True)
    assert not any((first.is_unread, first.is_shared))


def test_a_queue_that_two_read_is_marked_unless_they_broadcast() -> None:
    members = members_of(CLIENTS, {"one": info(*QUEUES), "two": info(QUEUES[0])})
    assert [each.is_shared for each in matrix_of(PROGRESS, members, "CLUSTERING")] == [
        *(True, False, False)
    ]
    assert not any(each.is_shared for each in matrix_of(PROGRESS, members, "BROADCASTING"))


def test_while_a_member_is_silent_no_queue_is_called_unread() -> None:
    members = members_of(CLIENTS, {"one": info(QUEUES[0]), "two": MemberSilent("hangs")})
    assert members[1].silent == "hangs"
    assert not any(each.is_unread for each in matrix_of(PROGRESS, members, "CLUSTERING"))


def test_without_members_nothing_is_called_unread() -> None:
    assert not any(each.is_unread or each.cells for each in matrix_of(PROGRESS, [], None))
