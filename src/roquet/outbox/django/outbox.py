"""Rows of Django's outbox: how a program adds them, and how a relay finds them."""

from collections.abc import Collection, Sequence
from typing import Final, final

from django.db import DEFAULT_DB_ALIAS, IntegrityError, router, transaction
from django.db.models import Q

from roquet.clock import Clock, SystemClock
from roquet.outbox.django.models import OutboxLease, OutboxMessage
from roquet.outbox.rows import ERROR_SIZE_MAX, OutboxRow, columns_of, message_of
from roquet.protocol.messages.message import Message

_LEASE: Final = "relay"


def add_message(
    message: Message, *, order_key: str | None = None, using: str | None = None
) -> None:
    """Adds a message to the outbox, inside of `transaction.atomic()`: it is sent if that commits.

    `using` is the database of the transaction. Those with the same `order_key` are sent in their
    order, to one queue. Raises BadArgument.
    """
    columns = columns_of(message, order_key)
    OutboxMessage.objects.using(using or router.db_for_write(OutboxMessage)).create(**columns)


@final
class DjangoOutboxTable:
    """The rows of the outbox in one database, for its relay."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS, clock: Clock | None = None) -> None:
        self._using = using
        self._clock = clock or SystemClock()
        self._rows = OutboxMessage.objects.using(using)
        self._leases = OutboxLease.objects.using(using)

    def lease(self, owner: str, duration_s: float) -> bool:
        now_ms = self._clock.now_ms()
        lease = {"owner": owner, "until_ms": now_ms + round(duration_s * 1000)}
        is_free = Q(owner=owner) | Q(until_ms__lt=now_ms)
        if self._leases.filter(is_free, name=_LEASE).update(**lease):
            return True
        if self._leases.filter(name=_LEASE).exists():
            return False
        try:
            with transaction.atomic(using=self._using):
                self._leases.create(name=_LEASE, **lease)
        except IntegrityError:
            return False  # Another one was the first.
        return True

    def release(self, owner: str) -> None:
        self._leases.filter(name=_LEASE, owner=owner).update(until_ms=0)

    def pending(self, count_max: int) -> Sequence[OutboxRow]:
        held_up = self._rows.filter(error__isnull=False, order_key__isnull=False)
        found = (
            self._rows.filter(error__isnull=True)
            .exclude(order_key__in=held_up.values("order_key"))
            .order_by("number")[:count_max]
        )
        return [OutboxRow(row.number, message_of(row), row.order_key) for row in found]

    def delete(self, numbers: Collection[int]) -> None:
        self._rows.filter(number__in=numbers).delete()

    def fail(self, number: int, error: str) -> None:
        self._rows.filter(number=number).update(error=error[:ERROR_SIZE_MAX])

    def retry_failed(self) -> int:
        """Rows with an error are sent again; returns how many there were."""
        count: int = self._rows.filter(error__isnull=False).update(error=None)
        return count
