"""One function per request of brokers, clients and tools; the table is at the end."""

import logging
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from roquet.access.needs import ACCOUNT
from roquet.namesrv.config import change_config, changeable_texts, config_texts
from roquet.namesrv.errors import NotChangeable, RegistrationRefused
from roquet.namesrv.route_table import (
    SILENCE_MAX_S,
    BrokerIdentity,
    BrokerKey,
    BrokerTraits,
    RouteTable,
)
from roquet.namesrv.state import NameServer
from roquet.net.errors import ConnectionLost, Refused
from roquet.net.router import Answer, Deferred, Reply, Request, on
from roquet.protocol.bodies.body import DataVersion, read_body, write_body
from roquet.protocol.bodies.name_server import (
    BrokerMemberGroupReply,
    KvTable,
    TopicRoute,
    read_registration,
)
from roquet.protocol.bodies.topics import TopicList
from roquet.protocol.codes import VERSION_4_9_4, RequestCode as Code, ResponseCode
from roquet.protocol.command import OUR_LANGUAGE, Command
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.name_server import (
    AddWritePermissionHeader,
    AddWritePermissionReplyHeader,
    BrokerHeartbeatHeader,
    BrokerMemberGroupHeader,
    ClusterInfoHeader,
    DeleteKvConfigHeader,
    DeleteTopicFromNameServerHeader,
    GetKvConfigHeader,
    GetKvConfigReplyHeader,
    GetRouteHeader,
    ListKvConfigHeader,
    PutKvConfigHeader,
    QueryDataVersionHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    RegisterTopicHeader,
    TopicsByClusterHeader,
    UnregisterBrokerHeader,
    WipeWritePermissionHeader,
    WipeWritePermissionReplyHeader,
)
from roquet.protocol.lenient_json import with_bare_integer_keys
from roquet.protocol.names import ORDER_NAMESPACE
from roquet.protocol.properties_text import read_properties_text, write_properties_text
from roquet.settings.changes import change_text, obey_log_level
from roquet.settings.options import ConfigError

log = logging.getLogger(__name__)

_CRC_MASK: Final = 0x7FFF_FFFF

# Brokers.


def register_broker(server: NameServer, request: Request[RegisterBrokerHeader]) -> Reply:
    header = request.header
    if header.body_crc32 and zlib.crc32(request.body) & _CRC_MASK != header.body_crc32:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "the CRC-32 of the body differs from that in the header"
        )
    identity = _identity(header)
    registration = read_registration(request.body, request.command.version)
    try:
        traits = _traits(header, request.command.language)
        is_new = server.routes.register(identity, traits, registration, request.connection)
    except RegistrationRefused as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    server.lost.returned(identity, is_new=is_new)
    if is_new:
        topic_count = len(registration.topics.topic_config_table)
        log.info("registered %s with %d topics", _described(identity), topic_count)
        notify_twins(server, identity)
    master = server.routes.master_of(identity)
    reply_header = RegisterBrokerReplyHeader()
    if master is not None:
        reply_header.master_addr = master.identity.address
        reply_header.ha_server_addr = master.traits.ha_address
    duplicate = server.routes.duplicate_of(identity)
    if duplicate is not None:
        reply_header.duplicate_addr = duplicate
        server.warnings.warning(
            str(identity[:3]),
            f"two brokers are registered as {_described(identity)} and {duplicate}: clients find"
            " the one that registered last. Give one of them another brokerName or brokerId",
        )
    return Reply(header=reply_header, body=_order_table(server))


def unregister_broker(server: NameServer, request: Request[UnregisterBrokerHeader]) -> Reply:
    identity = _identity(request.header)
    was_lost = server.lost.forget(identity.key)
    if server.routes.unregister(identity) or was_lost:
        log.info("unregistered %s, as %s asked", _described(identity), request.sender)
        notify_twins(server, identity)
    return Reply()


def notify_twins(server: NameServer, identity: BrokerIdentity) -> None:
    """A broker came or left: those of its name and id learn it now, not within 30 seconds."""
    for twin in server.routes.twins_of(identity):
        # To brokers of 5.x this request means something else.
        if twin.traits.heeds_notices:
            with suppress(ConnectionLost):
                twin.channel.send_oneway(Command(Code.NOTIFY_MIN_BROKER_ID_CHANGE))


def query_data_version(server: NameServer, request: Request[QueryDataVersionHeader]) -> Reply:
    identity = _identity(request.header)
    known = server.routes.data_version(identity.key)
    has_changed = known != read_body(DataVersion, request.body)
    if not has_changed:
        server.routes.refresh(identity.key)
    header = QueryDataVersionReplyHeader(changed=has_changed)
    latest = server.routes.latest_master(identity)
    if latest is not None:
        header.latest_master_addr, header.latest_master_epoch = latest.address, latest.epoch
    return Reply(header=header, body=write_body(known) if known else b"")


def broker_heartbeat(server: NameServer, request: Request[BrokerHeartbeatHeader]) -> Reply:
    server.routes.refresh(BrokerKey(request.header.cluster_name, request.header.broker_addr))
    return Reply()


def get_member_group(server: NameServer, request: Request[BrokerMemberGroupHeader]) -> Reply:
    group = server.routes.member_group(request.header.cluster_name, request.header.broker_name)
    return Reply(body=write_body(BrokerMemberGroupReply(broker_member_group=group)))


def register_topic(server: NameServer, request: Request[RegisterTopicHeader]) -> Reply:
    if request.body:
        route = read_body(TopicRoute, request.body)
        try:
            server.routes.register_topic(request.header.topic, route.queue_datas)
        except RegistrationRefused as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Reply()


# Clients.


def get_route(server: NameServer, request: Request[GetRouteHeader]) -> Reply:
    topic = request.header.topic
    route = server.routes.route(topic)
    if route is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"no broker is registered for topic {topic!r}")
    if server.config.routes_show_order:
        route.order_topic_conf = server.kv_config.get(ORDER_NAMESPACE, topic)
    body = write_body(route)
    is_strict = request.command.version >= VERSION_4_9_4 or request.header.accept_standard_json_only
    return Reply(body=body if is_strict else with_bare_integer_keys(body))


# Tools.


def get_cluster_info(server: NameServer, request: Request[ClusterInfoHeader]) -> Reply:
    info = server.routes.cluster_info()
    if request.header.with_lost_brokers:
        info.lost_brokers = server.lost.known()
    return Reply(body=write_body(info))


def get_topics_of_cluster(server: NameServer, request: Request[TopicsByClusterHeader]) -> Reply:
    return _topic_list(server.routes.topics_of_cluster(request.header.cluster))


def get_system_topics(server: NameServer, _request: Request[NoFields]) -> Reply:
    return _topic_list(server.routes.system_topics(), server.routes.any_address())


def topics_by(
    topics_of: Callable[[RouteTable], list[str]],
) -> Callable[[NameServer, Request[NoFields]], Answer]:
    """The handler that answers with one of the lists of topics."""

    def handler(server: NameServer, _request: Request[NoFields]) -> Reply:
        return _topic_list(topics_of(server.routes))

    return handler


def delete_topic(server: NameServer, request: Request[DeleteTopicFromNameServerHeader]) -> Reply:
    header = request.header
    server.routes.delete_topic(header.topic, header.cluster_name)
    where = header.cluster_name or "all clusters"
    log.info("deleted topic %s in %s, as %s asked", header.topic, where, request.sender)
    return Reply()


def wipe_write_permission(server: NameServer, request: Request[WipeWritePermissionHeader]) -> Reply:
    name = request.header.broker_name
    topic_count = server.routes.wipe_write_permission(name)
    log.info(
        "broker name %s: %d topics are read-only now, as %s asked",
        *(name, topic_count, request.sender),
    )
    return Reply(header=WipeWritePermissionReplyHeader(wipe_topic_count=topic_count))


def add_write_permission(server: NameServer, request: Request[AddWritePermissionHeader]) -> Reply:
    name = request.header.broker_name
    topic_count = server.routes.add_write_permission(name)
    log.info(
        "broker name %s: %d topics are writable now, as %s asked",
        *(name, topic_count, request.sender),
    )
    return Reply(header=AddWritePermissionReplyHeader(add_topic_count=topic_count))


# Settings.


def put_kv(server: NameServer, request: Request[PutKvConfigHeader]) -> Deferred:
    header = request.header
    old = server.kv_config.get(header.namespace, header.key)
    server.kv_config.put(header.namespace, header.key, header.value)
    log.info(
        "set %s/%s, as %s asked: %r -> %r",
        *(header.namespace, header.key, request.sender, old, header.value),
    )
    return server.kv_config.saving.answer_when_saved(request)


def get_kv(server: NameServer, request: Request[GetKvConfigHeader]) -> Reply:
    header = request.header
    value = server.kv_config.get(header.namespace, header.key)
    if value is None:
        raise Refused(
            ResponseCode.QUERY_NOT_FOUND,
            f"nothing is set for {header.key!r} in {header.namespace!r}",
        )
    return Reply(header=GetKvConfigReplyHeader(value=value))


def delete_kv(server: NameServer, request: Request[DeleteKvConfigHeader]) -> Deferred:
    header = request.header
    old = server.kv_config.get(header.namespace, header.key)
    server.kv_config.delete(header.namespace, header.key)
    log.info(
        "deleted %s/%s, as %s asked: it was %r",
        *(header.namespace, header.key, request.sender, old),
    )
    return server.kv_config.saving.answer_when_saved(request)


def list_kv(server: NameServer, request: Request[ListKvConfigHeader]) -> Reply:
    namespace = request.header.namespace
    table = server.kv_config.table(namespace)
    if table is None:
        raise Refused(ResponseCode.QUERY_NOT_FOUND, f"nothing is set in {namespace!r}")
    return Reply(body=write_body(KvTable(table=table)))


def get_config(server: NameServer, _request: Request[NoFields]) -> Reply:
    """With what an operator has to know besides: when the certificate expires."""
    expires_ms = server.tls.expires_ms
    state = {} if expires_ms is None else {"certificateExpires": str(expires_ms)}
    return Reply(body=write_properties_text(config_texts(server.config) | state))


def update_config(server: NameServer, request: Request[NoFields]) -> Deferred:
    """A change takes effect at once, and after a restart as in `settings.changes`."""
    settings = read_properties_text(request.body)
    old = server.config
    try:
        server.config = change_config(old, settings)
    except NotChangeable as error:
        raise Refused(ResponseCode.NO_PERMISSION, str(error)) from None
    except ConfigError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    if server.config.log_level is not old.log_level:
        obey_log_level(server.config.log_level)
    before, texts = changeable_texts(old), changeable_texts(server.config)
    changed = {name: texts[name] for name in settings if name in texts}
    if changed:
        server.changed_settings.note(changed)
    log.info("changed settings, as %s asked: %s", request.sender, change_text(before, changed))
    ignored = [name for name in settings if name not in changed]
    reply = Reply(remark=f"without effect here: {', '.join(ignored)}" if ignored else None)
    return server.settings_saving.answer_when_saved(request, reply)


def _identity(
    header: RegisterBrokerHeader | UnregisterBrokerHeader | QueryDataVersionHeader,
) -> BrokerIdentity:
    return BrokerIdentity(
        header.cluster_name, header.broker_name, header.broker_id, header.broker_addr
    )


def _traits(header: RegisterBrokerHeader, language: str | None) -> BrokerTraits:
    timeout_ms = header.heartbeat_timeout_millis
    return BrokerTraits(
        ha_address=header.ha_server_addr,
        silence_max_s=SILENCE_MAX_S if timeout_ms is None else timeout_ms / 1000,
        zone=header.zone_name,
        has_acting_master=header.enable_acting_master,
        heeds_notices=language == OUR_LANGUAGE,
    )


def _described(identity: BrokerIdentity) -> str:
    return f"{identity.cluster}/{identity.name}/{identity.broker_id} at {identity.address}"


def _order_table(server: NameServer) -> bytes:
    if not server.config.brokers_learn_order:
        return b""
    table = server.kv_config.table(ORDER_NAMESPACE)
    return b"" if table is None else write_body(KvTable(table=table))


def _topic_list(topics: list[str], address: str | None = None) -> Reply:
    return Reply(body=write_body(TopicList(broker_addr=address, topic_list=topics)))


ROUTES = (
    on(Code.REGISTER_BROKER, RegisterBrokerHeader, register_broker),
    on(Code.UNREGISTER_BROKER, UnregisterBrokerHeader, unregister_broker),
    on(Code.QUERY_DATA_VERSION, QueryDataVersionHeader, query_data_version),
    on(Code.BROKER_HEARTBEAT, BrokerHeartbeatHeader, broker_heartbeat),
    on(Code.GET_BROKER_MEMBER_GROUP, BrokerMemberGroupHeader, get_member_group),
    on(Code.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicHeader, register_topic),
    on(Code.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader, get_route, needs=ACCOUNT),
    on(Code.GET_BROKER_CLUSTER_INFO, ClusterInfoHeader, get_cluster_info, needs=ACCOUNT),
    on(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NoFields, topics_by(RouteTable.topics)),
    on(Code.GET_TOPICS_BY_CLUSTER, TopicsByClusterHeader, get_topics_of_cluster),
    on(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, NoFields, get_system_topics, needs=ACCOUNT),
    on(Code.GET_UNIT_TOPIC_LIST, NoFields, topics_by(RouteTable.unit_topics)),
    on(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, NoFields, topics_by(RouteTable.unit_subscription_topics)),
    on(
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        NoFields,
        topics_by(RouteTable.unit_subscription_topics_outside_units),
    ),
    on(Code.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNameServerHeader, delete_topic),
    on(Code.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermissionHeader, wipe_write_permission),
    on(Code.ADD_WRITE_PERM_OF_BROKER, AddWritePermissionHeader, add_write_permission),
    on(Code.PUT_KV_CONFIG, PutKvConfigHeader, put_kv),
    on(Code.GET_KV_CONFIG, GetKvConfigHeader, get_kv),
    on(Code.DELETE_KV_CONFIG, DeleteKvConfigHeader, delete_kv),
    on(Code.GET_KVLIST_BY_NAMESPACE, ListKvConfigHeader, list_kv),
    on(Code.GET_NAMESRV_CONFIG, NoFields, get_config),
    on(Code.UPDATE_NAMESRV_CONFIG, NoFields, update_config),
)
