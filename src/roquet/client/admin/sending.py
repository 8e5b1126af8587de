"""Messages that operators send: of a test, or dead letters again."""

from typing import Final

from roquet.client.admin.servers import AdminConfig, AdminServers
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.receipt import SendReceipt
from roquet.protocol.messages.message import Message

_PRODUCER_GROUP: Final = "roquet-admin"


def new_producer(config: AdminConfig) -> AsyncProducer:
    """Not open yet."""
    return AsyncProducer(
        config.name_server,
        _PRODUCER_GROUP,
        namespace=config.namespace,
        credentials=config.credentials,
        tls=config.tls,
    )


async def send(servers: AdminServers, message: Message) -> SendReceipt:
    async with new_producer(servers.config) as producer:
        return await producer.send(message)
