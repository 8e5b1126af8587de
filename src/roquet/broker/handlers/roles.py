"""Replication as operators and slaves ask for it.

    PROMOTE_BROKER         a slave becomes the master, of the next epoch
    DEMOTE_BROKER          a master takes no more messages, waits for a slave that has all of them,
                           and becomes a slave itself
    GET_BROKER_HA_STATUS   how far replicas have come, as `haStatus` of 5.x asks
    GET_ALL_DELAY_OFFSET   progress of delayed messages, which slaves copy from their master

Where etcd decides, a master that is demoted steps down, and another broker is elected.
"""

import asyncio
import logging
from typing import Final

from roquet.access.needs import EVERYTHING
from roquet.broker.broker import Broker
from roquet.broker.handlers.answers import defer
from roquet.broker.maintenance import promote
from roquet.broker.replication.epochs import AssignedRole, SharedSecret
from roquet.broker.replication.replication import Replication, RestartAsSlave
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.brokers import (
    HaStatus,
    MasterConnection,
    SlaveConnection,
)
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.brokers import (
    AllOffsetsHeader,
    AllProgressReplyHeader,
    DemoteBrokerHeader,
    PromoteBrokerHeader,
    PromoteBrokerReplyHeader,
)
from roquet.state_file import StateNotSaved
from roquet.store.errors import StoreUnavailable

log = logging.getLogger(__name__)

_CATCH_UP_S_MAX: Final = 10.0
_LOOK_AGAIN_S: Final = 0.02


def promote_broker(broker: Broker, request: Request[PromoteBrokerHeader]) -> Reply:
    secret = _secret(broker.replication)
    replication = broker.replication
    if not broker.config.is_slave:
        raise _refused("this is the master already")
    if broker.config.etcd:
        raise _refused("etcd decides who is master: demote the master, and another one steps in")
    link = replication.master_link
    if link is not None and link.master is not None and not request.header.force:
        raise _refused(f"it follows {link.master}, which is running: demote that first")
    try:
        secret.epochs.assign(AssignedRole(is_master=True, broker_id=0))
        promote(broker, secret.epochs.seen + 1)
    except (StateNotSaved, StoreUnavailable, OSError) as error:
        replication.request_restart(RestartAsSlave(replication.config.replica_id or 1))
        raise _refused(f"it could not take the role: {error}") from error
    log.info("promoted to master of epoch %d, as %s asked", replication.epoch, request.sender)
    acknowledge = replication.ack_rule.policy.value
    return Reply(header=PromoteBrokerReplyHeader(acknowledge=acknowledge, epoch=replication.epoch))


def demote_broker(broker: Broker, request: Request[DemoteBrokerHeader]) -> Deferred:
    secret = _secret(broker.replication)
    if broker.config.is_slave:
        raise _refused("this is a slave already")
    if request.header.broker_id <= 0:
        raise _refused("a slave has an id above 0")
    return defer(broker.background, request, lambda: _demoted(broker, secret, request))


async def _demoted(
    broker: Broker, secret: SharedSecret, request: Request[DemoteBrokerHeader]
) -> Reply:
    header = request.header
    broker.store.pause()
    if not header.force and not await _is_copied(broker):
        broker.store.go_on()
        return Reply(
            ResponseCode.SYSTEM_ERROR,
            remark=f"no slave has all of the log after {_CATCH_UP_S_MAX:.0f} s, so this one stays"
            " the master",
        )
    try:
        if not broker.config.etcd:
            secret.epochs.assign(AssignedRole(is_master=False, broker_id=header.broker_id))
    except StateNotSaved as error:
        broker.store.go_on()
        return Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
    log.info("becomes a slave with id %d, as %s asked", header.broker_id, request.sender)
    broker.replication.request_restart(RestartAsSlave(header.broker_id))
    return Reply()


async def _is_copied(broker: Broker) -> bool:
    """Whether a slave that could become master has everything, soon."""
    replicas = broker.replication.replicas
    deadline_s = broker.clock.monotonic_s() + _CATCH_UP_S_MAX
    while broker.clock.monotonic_s() < deadline_s:
        in_sync = broker.replication.in_sync()
        if any(
            slave.replica is not None
            and slave.replica.replica_id in in_sync
            and slave.confirmed_end >= broker.store.log_end
            for slave in replicas.slaves
        ):
            return True
        broker.replication.slave_links.wake()
        await asyncio.sleep(_LOOK_AGAIN_S)
    return False


def _secret(replication: Replication) -> SharedSecret:
    if replication.secret is None:
        raise _refused("it has no replication.secretFile, so there are no epochs")
    return replication.secret


def _refused(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)


# No `needs`: for administrators only.


def get_ha_status(broker: Broker, _request: Request[NoFields]) -> Reply:
    status = _as_slave(broker) if broker.config.is_slave else _as_master(broker)
    return Reply(body=write_body(status))


def _as_master(broker: Broker) -> HaStatus:
    log_end = broker.store.log_end
    slaves = [
        SlaveConnection(
            addr=slave.address,
            diff=log_end - slave.confirmed_end,
            in_sync=log_end - slave.confirmed_end < broker.config.ha_lag_size_max,
            slave_ack_offset=slave.confirmed_end,
            transfer_from_where=slave.sent_end,
        )
        for slave in broker.replication.replicas.slaves
    ]
    return HaStatus(
        master=True,
        master_commit_log_max_offset=log_end,
        in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
        ha_connection_info=slaves,
    )


def _as_slave(broker: Broker) -> HaStatus:
    link = broker.replication.master_link
    assert link is not None, "a slave has one"
    return HaStatus(
        ha_client_runtime_info=MasterConnection(
            master_addr=link.master, max_offset=broker.store.log_end
        )
    )


def get_all_delay_offsets(broker: Broker, request: Request[AllOffsetsHeader]) -> Reply:
    """A slave that knew more than its log has would lose messages with its master.

    A Roquet slave gets the end of the log for which all this is true. Apache slaves get levels
    only, and no more than is true for the shortest log among them.
    """
    progress, known_version = broker.waiting.progress, request.header.known_version
    if known_version is None:
        levels = progress.levels.value_at(broker.replication.replicas.apache_end)
        return Reply(body=write_body(DelayOffsetTable(offset_table=levels.offset_table)))
    version = progress.version
    header = AllProgressReplyHeader(version=version, epoch=broker.replication.epoch)
    if known_version == version:
        return Reply(header=header)
    return Reply(header=header, body=write_body(progress.snapshot()))


ROUTES = (
    on(RequestCode.PROMOTE_BROKER, PromoteBrokerHeader, promote_broker),
    on(RequestCode.DEMOTE_BROKER, DemoteBrokerHeader, demote_broker),
    on(RequestCode.GET_BROKER_HA_STATUS, NoFields, get_ha_status),
    on(
        RequestCode.GET_ALL_DELAY_OFFSET,
        AllOffsetsHeader,
        get_all_delay_offsets,
        needs=EVERYTHING,
    ),
)
