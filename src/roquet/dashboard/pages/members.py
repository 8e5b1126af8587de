"""The members of a group, and the matrix of its queues and who reads them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from roquet.client.admin.groups import (
    ClientConnection,
    MemberInfo,
    MemberQueue,
    MemberSilent,
    MessageInHand,
)
from roquet.client.admin.progress import QueueProgress

_BROADCASTING = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class Member:
    """A connected client of the group, and what it reports. It heads a column by its number."""

    number: int
    client: ClientConnection
    info: MemberInfo | None
    silent: str | None


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """A queue that a member reads, and the oldest message of it that a listener has in hand."""

    queue: MemberQueue
    in_hand: MessageInHand | None


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A queue, and what each member has of it; None if that member does not read it."""

    progress: QueueProgress
    cells: tuple[MatrixCell | None, ...]
    # Messages are left and no member reads them, or more than one does.
    is_unread: bool
    is_shared: bool

    @property
    def reader_count(self) -> int:
        return sum(each is not None for each in self.cells)


def members_of(
    connections: Iterable[ClientConnection], infos: Mapping[str, MemberInfo | MemberSilent]
) -> list[Member]:
    return [
        _member(number, each, infos.get(each.client_id))
        for number, each in enumerate(connections, 1)
    ]


def _member(
    number: int, client: ClientConnection, found: MemberInfo | MemberSilent | None
) -> Member:
    info = found if isinstance(found, MemberInfo) else None
    silent = found.reason if isinstance(found, MemberSilent) else None
    return Member(number, client, info, silent)


def matrix_of(
    queues: Iterable[QueueProgress], members: Sequence[Member], message_model: str | None
) -> list[MatrixRow]:
    """A row for each queue. Only if all members have reported, a queue is known to be unread."""
    is_known = bool(members) and all(each.info is not None for each in members)
    rows = []
    for queue in queues:
        cells = tuple(_cell(each, queue) for each in members)
        readers = sum(each is not None for each in cells)
        rows.append(
            MatrixRow(
                queue,
                cells,
                is_unread=is_known and readers == 0 and bool(queue.lag),
                is_shared=readers > 1 and message_model != _BROADCASTING,
            )
        )
    return rows


def _cell(member: Member, queue: QueueProgress) -> MatrixCell | None:
    found = None if member.info is None else member.info.queues.get(queue.queue)
    if member.info is None or found is None:
        return None
    held = (each for each in member.info.in_hand or () if each.queue == queue.queue)
    return MatrixCell(found, next(held, None))
