"""Consumer groups as operators see them: settings, and their end."""

import logging
from collections.abc import Iterable
from typing import Any

from roquet.access.needs import EVERYTHING, sub_group
from roquet.broker.broker import Broker
from roquet.broker.handlers.deferred import answer_when_changed
from roquet.broker.handlers.pages import page
from roquet.broker.handlers.refusals import check_is_master
from roquet.broker.membership import group_settings
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigList
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import AddressedHeader
from roquet.protocol.headers.groups import (
    AllGroupConfigsHeader,
    AllGroupConfigsReplyHeader,
    DeleteGroupHeader,
    GetGroupConfigHeader,
)

log = logging.getLogger(__name__)


def update_group(broker: Broker, request: Request[AddressedHeader]) -> Deferred:
    return _update_groups(broker, request, [read_body(GroupConfig, request.body)])


def update_groups(broker: Broker, request: Request[AddressedHeader]) -> Deferred:
    body = read_body(GroupConfigList, request.body)
    return _update_groups(broker, request, body.group_config_list)


def delete_group(broker: Broker, request: Request[DeleteGroupHeader]) -> Deferred:
    check_is_master(broker)
    header = request.header
    if broker.groups.delete(header.group_name):
        log.info("deleted group %s, as %s asked", header.group_name, request.connection.peer)
    savers = [broker.group_saver]
    if header.remove_offset or header.clean_offset:
        broker.offsets.forget_group(header.group_name)
        savers.append(broker.offset_saver)
    return answer_when_changed(broker, request, *savers)


def get_group(broker: Broker, request: Request[GetGroupConfigHeader]) -> Reply:
    return Reply(body=write_body(group_settings(broker, request.header.group)))


def get_all_groups(broker: Broker, request: Request[AllGroupConfigsHeader]) -> Reply:
    header = request.header
    table = broker.groups.snapshot()
    total = len(table.subscription_group_table)
    table.subscription_group_table = page(
        table.subscription_group_table,
        table.data_version,
        header.group_seq,
        header.max_group_num,
        header.data_version,
    )
    return Reply(header=AllGroupConfigsReplyHeader(total_group_num=total), body=write_body(table))


def _update_groups(
    broker: Broker, request: Request[Any], groups: Iterable[GroupConfig]
) -> Deferred:
    check_is_master(broker)
    # If one of many is refused, those before it have changed all the same.
    for group in groups:
        broker.groups.update(group)
        log.info("changed group %s, as %s asked", group.group_name, request.connection.peer)
    return answer_when_changed(broker, request, broker.group_saver)


ROUTES = (
    on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, AddressedHeader, update_group),
    on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, AddressedHeader, update_groups),
    on(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader, delete_group),
    on(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        GetGroupConfigHeader,
        get_group,
        needs=sub_group("group"),
    ),
    on(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        AllGroupConfigsHeader,
        get_all_groups,
        needs=EVERYTHING,
    ),
)
