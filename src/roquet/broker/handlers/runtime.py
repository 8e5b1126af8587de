"""The broker as a whole: its configuration, and what it is doing."""

import logging
from typing import Final

from msgspec.structs import replace

from roquet.broker.broker import Access, Broker
from roquet.broker.handlers.answers import defer, invalid, saved
from roquet.broker.settings.apache_keys import (
    CHANGEABLE,
    change_config,
    changeable_texts,
    config_texts,
    without_effect,
)
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import VERSION_OURS, RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.brokers import (
    BrokerConfigReplyHeader,
    BrokerStatsHeader,
)
from roquet.protocol.messages.record import peek_record
from roquet.protocol.properties_text import read_properties_text, write_properties_text
from roquet.settings.changes import change_text, obey_log_level
from roquet.settings.options import ConfigError
from roquet.store.errors import BadRecord, StoreUnavailable
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

# What tools and exporters of Apache read, and what we do not have: threads with queues before
# them, buffers, a timer wheel, and times that are not measured here.
_NOT_HERE: Final = {
    "brokerActive": "true",
    "dispatchBehindBytes": "0",
    "dispatchMaxBuffer": "0",
    "getMessageEntireTimeMax": "0",
    "pageCacheLockTimeMills": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "null",
    "putMessageEntireTimeMax": "0",
    "remainTransientStoreBufferNumbs": "2147483647",
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "sendThreadPoolQueueSize": "0",
    "sendThreadPoolQueueCapacity": "10000",
    "sendThreadPoolQueueHeadWaitTimeMills": "0",
    "pullThreadPoolQueueSize": "0",
    "pullThreadPoolQueueCapacity": "100000",
    "pullThreadPoolQueueHeadWaitTimeMills": "0",
    "queryThreadPoolQueueSize": "0",
    "queryThreadPoolQueueCapacity": "20000",
    "queryThreadPoolQueueHeadWaitTimeMills": "0",
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}
# `exportConfigs` of 4.9 fails without this setting; there are no filter servers.
_NO_SETTINGS_HERE: Final = {"filterServerNums": "0"}
_VERSION_NAME: Final = "V4_9_8"
_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def get_config(broker: Broker, _request: Request[NoFields]) -> Reply:
    version = write_body(broker.tables.config_version).decode()
    body = write_properties_text(_NO_SETTINGS_HERE | config_texts(broker.config))
    return Reply(header=BrokerConfigReplyHeader(version=version), body=body)


def update_config(broker: Broker, request: Request[NoFields]) -> Deferred:
    """What is changed counts at once, and after a restart as described in `settings.changes`."""
    settings = read_properties_text(request.body)
    old = broker.config
    try:
        broker.config = change_config(old, settings)
    except ConfigError as error:
        raise invalid(request.command, str(error)) from None
    broker.store.obey(broker.config.store)
    broker.tables.config_version = replace(
        broker.tables.config_version,
        counter=broker.tables.config_version.counter + 1,
        timestamp=broker.clock.now_ms(),
    )
    broker.background.pauses.settings_changed()
    if broker.config.log_level is not old.log_level:
        obey_log_level(broker.config.log_level)
    if broker.config.permission != old.permission:
        broker.tables.topics.bump_version()
    if broker.config.register_interval_ms != old.register_interval_ms:
        broker.registrar.refresh_soon()  # And from then on at the new pace.
    before, texts = changeable_texts(old), changeable_texts(broker.config)
    changed = {key: texts[key] for key in settings if key in texts}
    if changed:
        broker.tables.changed_settings.note(changed)
    log.info("changed settings, as %s asked: %s", request.sender, change_text(before, changed))
    ignored = without_effect(settings)
    reply = Reply(remark=f"without effect here: {', '.join(ignored)}" if ignored else None)
    return defer(broker.background, request, lambda: saved(reply, broker.tables.savers.settings))


def get_runtime_info(broker: Broker, _request: Request[NoFields]) -> Reply:
    table = _NOT_HERE | broker.statistics.runtime_entries() | _store_entries(broker)
    table |= broker.statistics.path_entries()
    table |= broker.waiting.delays.levels.runtime_entries()
    table |= _peer_entries(broker.access)
    table |= broker.replication.runtime_entries()
    table["brokerPermission"] = str(broker.config.permission)
    table["registrationConflict"] = broker.registrar.conflict or ""
    if broker.access.tls.expires_ms is not None:
        table["certificateExpires"] = str(broker.access.tls.expires_ms)
    if broker.config.grpc_port is not None:
        table["grpcPort"] = str(broker.config.grpc_port)
    changeable = CHANGEABLE.difference(broker.config.locked_settings)
    table["changeableSettings"] = ",".join(sorted(changeable))
    table["configuredSettings"] = write_body(broker.tables.changed_settings.configured()).decode()
    table["brokerVersion"] = str(VERSION_OURS)
    table["brokerVersionDesc"] = _VERSION_NAME
    table["startAcceptSendRequestTimeStamp"] = str(broker.config.accept_sends_from_ms)
    return Reply(body=write_body(KvTable(table=table)))


def view_statistics(broker: Broker, request: Request[BrokerStatsHeader]) -> Reply:
    header = request.header
    found = broker.statistics.find(header.stats_name, header.stats_key)
    if found is None:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"nothing was counted for {header.stats_name[:100]!r} of {header.stats_key[:300]!r}",
        )
    return Reply(body=write_body(found))


def _store_entries(broker: Broker) -> dict[str, str]:
    store = broker.store
    directory = broker.config.store.layout.commit_log
    space = store.disk_space()
    ratio = str(space.used_percent / 100)
    total, free = _size_text(space.used + space.usable), _size_text(space.usable)
    return {
        "commitLogMinOffset": str(store.log_start),
        "commitLogMaxOffset": str(store.log_end),
        "earliestMessageTimeStamp": str(_earliest_time(broker.store)),
        "remainHowManyDataToFlush": _size_text(store.log_end - store.synced_end),
        "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{directory}": ratio,
        "consumeQueueDiskRatio": ratio,
    }


def _peer_entries(access: Access) -> dict[str, str]:
    connection_budget = access.connection_budget
    return {
        "connectionCount": str(connection_budget.count),
        "connectionHeldBytes": str(connection_budget.held_size),
        "connectionsCutOff": str(connection_budget.cut_off_count),
        "connectionsRefused": str(connection_budget.refused_count),
        "requestsDenied": "0" if access.guard is None else str(access.guard.denied_count),
    }


def _earliest_time(store: MessageStore) -> int:
    try:
        return peek_record(store.record_at(store.log_start)).store_timestamp
    except BadRecord:
        return -1  # Java's value if there is no message.


def _size_text(size: float) -> str:
    unit = 0
    while size >= 1024:
        size /= 1024
        unit += 1
    return f"{size:.1f} {_SIZE_UNITS[unit]}" if unit else f"{size} B"


def delete_old_files(broker: Broker, _request: Request[NoFields]) -> Reply:
    try:
        broker.messages.expiry.clean(is_requested=True)
    except StoreUnavailable as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Reply()


ROUTES = (
    on(RequestCode.GET_BROKER_CONFIG, NoFields, get_config),
    on(RequestCode.UPDATE_BROKER_CONFIG, NoFields, update_config),
    on(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields, get_runtime_info),
    on(RequestCode.VIEW_BROKER_STATS_DATA, BrokerStatsHeader, view_statistics),
    on(RequestCode.DELETE_EXPIRED_COMMITLOG, NoFields, delete_old_files),
)
