"""Reports of who is connected."""

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.clients import (
    ConnectionInfo,
    ConsumerConnections,
    ProducerConnections,
    ProducerInfo,
    ProducerTable,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import ConsumerConnectionsHeader, ProducerConnectionsHeader
from tests.support.broker_bed import VERSION_4_9_7, BedClient, BrokerBed
from tests.support.fake_clock import START_MS

FIRST = ConnectionInfo(
    client_id="c1", client_addr="127.0.0.1:50000", language="JAVA", version=VERSION_4_9_7
)


async def test_the_consumers_of_a_group_are_shown_with_what_they_read(
    bed: BrokerBed, client: BedClient
) -> None:
    second = bed.connect()
    await client.beat("c1", reads={"g": ["TopicA"]})
    await second.beat("c2", reads={"g": ["TopicA"]}, language="GO")
    header = ConsumerConnectionsHeader(consumer_group="g")
    reply = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
    report = read_body(ConsumerConnections, reply.body)
    assert report.connection_set == [
        FIRST,
        ConnectionInfo(
            client_id="c2", client_addr="127.0.0.1:50001", language="GO", version=VERSION_4_9_7
        ),
    ]
    assert list(report.subscription_table) == ["TopicA"]
    assert report.consume_type == "CONSUME_PASSIVELY"
    assert report.message_model == "CLUSTERING"
    assert report.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


async def test_a_group_without_consumers_is_distinguished_from_one_that_has_some(
    client: BedClient,
) -> None:
    header = ConsumerConnectionsHeader(consumer_group="nobody")
    reply = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
    assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_the_producers_of_a_group_are_shown(client: BedClient) -> None:
    await client.beat("c1", sends=["p"])
    header = ProducerConnectionsHeader(producer_group="p")
    reply = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
    assert read_body(ProducerConnections, reply.body).connection_set == [FIRST]
    header = ProducerConnectionsHeader(producer_group="nobody")
    reply = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR


async def test_all_producers_are_shown_by_group(client: BedClient) -> None:
    await client.beat("c1", sends=["p", "q"])
    reply = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    shown = ProducerInfo(
        client_id="c1",
        remote_ip="/127.0.0.1:50000",
        language="JAVA",
        version=VERSION_4_9_7,
        last_update_timestamp=START_MS,
    )
    assert read_body(ProducerTable, reply.body).data == {"p": [shown], "q": [shown]}
