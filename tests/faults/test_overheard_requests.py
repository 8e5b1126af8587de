"""Whoever listens to a plain connection can use what administrators sign; TLS is the answer.

The signature of Apache's protocol covers the values of header fields and the body, but neither the
code of a request nor its time: what is shown here is why administrators encrypt.
"""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.topics import CreateTopicHeader, TopicStatsHeader
from tests.support.accounts import ACCOUNTS, ADMIN, accounts_file, signed
from tests.support.our_cluster import OurBroker
from tests.support.raw_peer import RawPeer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

TOPIC = "orders"
SETTINGS = {"aclEnable": "true"}
# What an administrator looks at, as it goes over the wire.
OVERHEARD = signed(
    Command(RequestCode.GET_TOPIC_STATS_INFO, 7, fields=fields_of(TopicStatsHeader(topic=TOPIC))),
    ADMIN,
)
REPLAYED = Command(RequestCode.DELETE_TOPIC_IN_BROKER, 8, fields=OVERHEARD.fields)
CREATED = signed(
    Command(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        9,
        fields=fields_of(
            CreateTopicHeader(
                topic=TOPIC,
                default_topic="TBW102",
                read_queue_nums=4,
                write_queue_nums=4,
                perm=6,
                topic_filter_type="SINGLE_TAG",
            )
        ),
    ),
    ADMIN,
)


def guarded(directory: Path, **settings: str) -> OurBroker:
    accounts = accounts_file(directory, ACCOUNTS)
    return OurBroker(directory, configuration={**SETTINGS, "aclFile": str(accounts), **settings})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OurBroker]:
    with guarded(tmp_path) as broker:
        yield broker


@pytest.fixture
def strict_broker(tmp_path: Path) -> Iterator[OurBroker]:
    with guarded(tmp_path, aclAdminRequiresTls="true") as broker:
        yield broker


async def plain(broker: OurBroker) -> RawPeer:
    return await RawPeer.connect(int(broker.address.rpartition(":")[2]))


async def encrypted(broker: OurBroker) -> RawPeer:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, _, port = broker.address.rpartition(":")
    return RawPeer(*await asyncio.open_connection(host, int(port), ssl=context))


async def test_an_intercepted_request_can_be_sent_under_another_code(broker: OurBroker) -> None:
    async with await plain(broker) as peer:
        assert (await peer.ask(CREATED)).code == ResponseCode.SUCCESS
        assert (await peer.ask(OVERHEARD)).code == ResponseCode.SUCCESS
        assert (await peer.ask(REPLAYED)).code == ResponseCode.SUCCESS
        assert (await peer.ask(OVERHEARD)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_administrators_have_to_encrypt_where_that_is_set(strict_broker: OurBroker) -> None:
    async with await encrypted(strict_broker) as administrator:
        assert (await administrator.ask(CREATED)).code == ResponseCode.SUCCESS
    async with await plain(strict_broker) as peer:
        # What others may do, too, is answered; what is only for administrators is not.
        assert (await peer.ask(OVERHEARD)).code == ResponseCode.SUCCESS
        refused = await peer.ask(REPLAYED)
        assert refused.code == ResponseCode.NO_PERMISSION
        assert "aclAdminRequiresTls" in (refused.remark or "")
        assert (await peer.ask(OVERHEARD)).code == ResponseCode.SUCCESS


async def test_one_that_has_not_signed_learns_nothing_of_a_header(broker: OurBroker) -> None:
    async with await plain(broker) as peer:
        reply = await peer.ask(Command(RequestCode.UPDATE_AND_CREATE_TOPIC, 1))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "No accessKey" in (reply.remark or "")
