"""Requests to a name server on a real socket, where the recorded ones do not reach."""

import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.disk import SystemDisk
from roquet.namesrv import server
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.handlers import ROUTES
from roquet.namesrv.state import NameServer
from roquet.net.router import Reply, RequestRoute
from roquet.protocol.bodies.body import DataVersion, read_body, write_body
from roquet.protocol.bodies.name_server import (
    KvTable,
    QueueData,
    TopicRoute,
    write_compressed_registration,
)
from roquet.protocol.catalog import CATALOG
from roquet.protocol.codes import (
    VERSION_3_0_11,
    VERSION_4_9_4,
    VERSION_OURS,
    RequestCode,
    ResponseCode,
)
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_of
from roquet.protocol.properties_text import read_properties_text
from tests.support.accounts import ROLES, accounts_file, signed
from tests.support.fake_clock import FakeClock
from tests.support.filled_headers import filled_header
from tests.support.golden_frames import golden_frames
from tests.support.names import BROKER, SLAVE, Names, registration, request, two_topics
from tests.support.raw_peer import RawPeer


async def route(peer: RawPeer, topic: str = "t") -> TopicRoute:
    reply = await peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}))
    assert reply.code == ResponseCode.SUCCESS
    return read_body(TopicRoute, reply.body)


# Whoever has an account; everything else is for administrators, and nothing for anybody else.
FOR_ACCOUNTS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
}
ALL_KNOWN = {"known", "publisher", "subscriber", "replica", "admin"}


async def test_each_role_may_do_what_the_table_says_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = [replace(route, handler=lambda _server, _request: Reply()) for route in ROUTES]
    monkeypatch.setattr(server, "ROUTES", reached)
    config = NameServerConfig(
        port=0,
        kv_config_path=tmp_path / "kvConfig.json",
        access_control=True,
        accounts_file=accounts_file(tmp_path),
    )
    async with (
        server.serve_names(config, FakeClock(), SystemDisk()) as names,
        await RawPeer.connect(names.config.port) as peer,
    ):
        for each in ROUTES:
            allowed = ALL_KNOWN if each.code in FOR_ACCOUNTS else {"admin"}
            assert await admitted(peer, each) == allowed, RequestCode(each.code).name


async def admitted(peer: RawPeer, route: RequestRoute[NameServer]) -> set[str]:
    """Which roles reach the handler."""
    found = set()
    for role, signer in ROLES.items():
        header = fields_of(filled_header(route.header, {}))
        reply = await peer.ask(signed(Command(route.code, fields=header), signer))
        if reply.code == ResponseCode.SUCCESS:
            found.add(role)
        else:
            assert (reply.remark or "").startswith("org.apache.rocketmq.acl.common.AclException: ")
    return found


def test_every_handler_takes_the_header_that_the_catalog_names() -> None:
    assert {each.code: each.header for each in ROUTES} == {
        each.code: CATALOG[each.code].header for each in ROUTES
    }


@pytest.mark.parametrize(
    ("version", "fields", "key"),
    [
        (VERSION_4_9_4 - 1, {}, b"{0:"),
        (VERSION_4_9_4 - 1, {"acceptStandardJsonOnly": "true"}, b'{"0":'),
        (VERSION_4_9_4, {}, b'{"0":'),
        (VERSION_4_9_4, {"acceptStandardJsonOnly": "false"}, b'{"0":'),
    ],
)
async def test_routes_are_written_in_the_dialect_that_the_client_reads(
    peer: RawPeer, version: int, fields: dict[str, str], key: bytes
) -> None:
    await peer.ask(registration())
    reply = await peer.ask(
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t", **fields}, version=version)
    )
    assert b'"brokerAddrs":' + key in reply.body


async def test_an_unknown_topic_has_no_route(peer: RawPeer) -> None:
    reply = await peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "nowhere"}))
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert "nowhere" in (reply.remark or "")


async def test_a_missing_field_is_named(peer: RawPeer) -> None:
    reply = await peer.ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "'topic' is missing" in (reply.remark or "")


@pytest.mark.parametrize("offset", [0, 1])
async def test_the_checksum_of_a_registration_is_checked(peer: RawPeer, offset: int) -> None:
    checksum = zlib.crc32(write_body(two_topics())) & 0x7FFF_FFFF
    reply = await peer.ask(registration(bodyCrc32=str(checksum ^ offset)))
    assert reply.code == (ResponseCode.SYSTEM_ERROR if offset else ResponseCode.SUCCESS)


async def test_a_compressed_registration_is_read_also_where_its_header_denies_it(
    peer: RawPeer,
) -> None:
    for is_compressed in ("true", "false"):
        body = write_compressed_registration(two_topics(), VERSION_OURS)
        reply = await peer.ask(registration(body=body, compressed=is_compressed))
        assert reply.code == ResponseCode.SUCCESS
    assert (await route(peer)).queue_datas[0].read_queue_nums == 4


async def test_the_compressed_registration_of_a_real_5_5_broker_is_accepted(
    peer: RawPeer,
) -> None:
    # Its own name server refuses it.
    (frame, *_) = [
        frame
        for frame in golden_frames()
        if frame.scenario == "reg_compressed_s55" and frame.kind == "request"
    ]
    assert (await peer.ask(frame.command)).code == ResponseCode.SUCCESS
    assert (await route(peer, "TBW102")).queue_datas[0].perm == 7


async def test_brokers_before_3_0_11_send_nothing_but_topics(peer: RawPeer) -> None:
    reply = await peer.ask(
        registration(body=write_body(two_topics().topics), version=VERSION_3_0_11 - 1)
    )
    assert reply.code == ResponseCode.SUCCESS
    assert (await route(peer)).queue_datas[0].broker_name == "a"


async def test_a_registration_that_cannot_be_read_is_refused(peer: RawPeer) -> None:
    for body in (b"{", b"xxxx", b"[]"):
        assert (await peer.ask(registration(body=body))).code == ResponseCode.SYSTEM_ERROR
    reply = await peer.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert reply.body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


async def test_a_refused_registration_shows_why(peer: RawPeer) -> None:
    single = two_topics()
    single.topics.topic_config_table.popitem()
    reply = await peer.ask(registration(body=write_body(single)))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "a first registration must carry all topics"


async def test_a_slave_learns_its_master(names: Names, peer: RawPeer) -> None:
    await peer.ask(registration())
    async with await names.connect() as slave:
        reply = await slave.ask(registration(SLAVE))
    assert field_texts(reply.fields) == {
        "haServerAddr": "10.0.0.1:10912",
        "masterAddr": "10.0.0.1:10911",
    }


async def test_registering_brokers_learn_which_topics_are_ordered(peer: RawPeer) -> None:
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "a:4"}
    await peer.ask(request(RequestCode.PUT_KV_CONFIG, order))
    reply = await peer.ask(registration())
    assert read_body(KvTable, reply.body).table == {"t": "a:4"}
    assert (await route(peer)).order_topic_conf is None
    await peer.ask(
        Command(
            RequestCode.UPDATE_NAMESRV_CONFIG,
            body=b"orderMessageEnable=true\nreturnOrderTopicConfigToBroker=false\n",
        )
    )
    assert (await peer.ask(registration())).body == b""
    assert (await route(peer)).order_topic_conf == "a:4"


@pytest.mark.parametrize("is_same_version", [True, False])
async def test_asking_for_the_data_version_is_a_sign_of_life_if_it_is_the_same(
    names: Names, peer: RawPeer, is_same_version: bool
) -> None:
    await peer.ask(registration())
    names.clock.advance(100)
    counter = 3 if is_same_version else 4
    reply = await peer.ask(
        request(
            RequestCode.QUERY_DATA_VERSION,
            BROKER,
            write_body(DataVersion(counter=counter, timestamp=1)),
        )
    )
    assert field_texts(reply.fields) == {"changed": "false" if is_same_version else "true"}
    assert read_body(DataVersion, reply.body) == DataVersion(counter=3, timestamp=1)
    names.clock.advance(100)
    assert bool(names.server.routes.expire()) is not is_same_version


async def test_a_heartbeat_is_a_sign_of_life(names: Names, peer: RawPeer) -> None:
    await peer.ask(registration())
    names.clock.advance(100)
    reply = await peer.ask(request(RequestCode.BROKER_HEARTBEAT, BROKER))
    assert reply.code == ResponseCode.SUCCESS
    names.clock.advance(100)
    assert names.server.routes.expire() == []


async def test_a_broker_names_its_own_limit_of_silence(names: Names, peer: RawPeer) -> None:
    await peer.ask(registration(heartbeatTimeoutMillis="5000"))
    names.clock.advance(5.1)
    assert len(names.server.routes.expire()) == 1


async def test_an_unregistered_broker_is_gone(peer: RawPeer) -> None:
    await peer.ask(registration())
    assert (await peer.ask(request(RequestCode.UNREGISTER_BROKER, BROKER))).code == 0
    reply = await peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}))
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert (await peer.ask(request(RequestCode.UNREGISTER_BROKER, BROKER))).code == 0


async def test_a_topic_is_registered_and_deleted_on_its_own(peer: RawPeer) -> None:
    await peer.ask(registration())
    queues = QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1)
    body = write_body(TopicRoute(queue_datas=[queues]))
    await peer.ask(request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "alone"}, body))
    assert (await route(peer, "alone")).queue_datas == [queues]
    assert (
        await peer.ask(request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "none"}))
    ).code == 0
    await peer.ask(request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "alone"}))
    reply = await peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "alone"}))
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST


async def test_write_permission_is_counted_in_topics(peer: RawPeer) -> None:
    await peer.ask(registration())
    reply = await peer.ask(request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "a"}))
    assert field_texts(reply.fields) == {"wipeTopicCount": "2"}
    assert (await route(peer)).queue_datas[0].perm == 4
    reply = await peer.ask(request(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "a"}))
    assert field_texts(reply.fields) == {"addTopicCount": "2"}
    assert (await route(peer)).queue_datas[0].perm == 6


async def test_settings_are_shown_under_their_apache_names(names: Names, peer: RawPeer) -> None:
    reply = await peer.ask(Command(RequestCode.GET_NAMESRV_CONFIG))
    settings = read_properties_text(reply.body)
    assert settings["listenPort"] == str(names.server.config.port)
    assert settings["orderMessageEnable"] == "false"
    assert settings["kvConfigPath"] == str(names.kv_config_path)


@pytest.mark.parametrize(
    "settings",
    [
        b"configStorePath=/x\n",
        b"kvConfigPath=/x\n",
        b"listenPort=1\n",
        b"bindAddress=0.0.0.0\n",
        b"rocketmqHome=/x\n",
        b"configBlackList=\n",
        b"whatever=1\n",
        b"orderMessageEnable=true\nkvConfigPath=/x\n",
    ],
)
async def test_settings_outside_the_allow_list_cannot_be_changed(
    names: Names, peer: RawPeer, settings: bytes
) -> None:
    before = names.server.config
    reply = await peer.ask(Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=settings))
    assert reply.code == ResponseCode.NO_PERMISSION
    assert names.server.config == before


async def test_a_setting_that_is_not_of_its_type_is_refused(names: Names, peer: RawPeer) -> None:
    reply = await peer.ask(
        Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=perhaps\n")
    )
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert str(reply.remark).startswith("orderMessageEnable='perhaps'")
    assert not names.server.config.routes_show_order


async def test_settings_for_threads_that_we_do_not_have_are_taken_and_named(
    peer: RawPeer,
) -> None:
    reply = await peer.ask(
        Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"serverWorkerThreads=8\n")
    )
    assert reply.code == ResponseCode.SUCCESS
    assert reply.remark == "without effect here: serverWorkerThreads"
