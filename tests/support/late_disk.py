"""A disk that takes too long, for brokers that wait for it."""

from roquet.broker.messages.acks import AckQueue, OnTimeout
from roquet.net.router import Reply, Request
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import NoFields
from tests.support.broker_bed import BedClient, BrokerBed
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import flusher_of

_LONG_S = 60.0
_NEVER = 2**62


def stop_disk(bed: BrokerBed) -> None:
    """Nothing gets there any more, but by `sync_disk`."""
    flusher_of(bed.broker.store).stop()


def sync_disk(bed: BrokerBed) -> None:
    flusher_of(bed.broker.store).tick()


async def until_late(acks: AckQueue, clock: FakeClock, probe: BedClient) -> None:
    """The deadline of everybody who waits by now is over, and they have noticed."""
    request = Request(NoFields(), Command(RequestCode.SEND_MESSAGE), probe.connection)
    # Deadlines come in the order of the line, so what joins it now is the last to be late.
    acks.reply_when_safe(request, _NEVER, Reply(), OnTimeout.IGNORE)
    clock.advance(_LONG_S)
    await probe.replied()
