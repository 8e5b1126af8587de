"""What a broker tells its clients without being asked, and without waiting for an answer."""

from collections.abc import Iterable

from roquet.broker.broker import Broker
from roquet.net.connection import Connection
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.groups import ConsumersChangedHeader


def tell(connections: Iterable[Connection], command: Command) -> None:
    """Whoever is about to go hears nothing any more."""
    for connection in connections:
        if connection.is_open:
            connection.send_oneway(command)


def tell_members_changed(broker: Broker, group: str) -> None:
    """Consumers share out their queues anew as soon as they hear this, not 20 seconds later."""
    members = broker.consumers.find(group)
    settings = broker.groups.find(group)
    is_wanted = settings is None or settings.notify_consumer_ids_changed_enable
    if members is None or not is_wanted or not broker.config.notify_consumers:
        return
    header = ConsumersChangedHeader(consumer_group=group)
    tell(
        members.members, Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields=fields_of(header))
    )
