"""How a master and its slaves see each other (907), as `haStatus` of 5.x asks."""

from roquet.broker.broker import Broker
from roquet.net.router import Reply, Request, on
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.brokers import (
    HaStatus,
    MasterConnection,
    SlaveConnection,
)
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import NoFields


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


ROUTES = (on(RequestCode.GET_BROKER_HA_STATUS, NoFields, get_ha_status),)
