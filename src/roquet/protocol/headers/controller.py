"""Headers of the 5.x controller, which elects the master of each broker name."""

from roquet.protocol.fields import Header, Int32, Int64


class AlterSyncStateSetHeader(Header):
    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32


class AlterSyncStateSetReplyHeader(Header):
    new_sync_state_set_epoch: Int32 = 0


class ElectMasterHeader(Header):
    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ElectMasterReplyHeader(Header):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterToControllerHeader(Header):
    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 | None = None


class RegisterToControllerReplyHeader(Header):
    cluster_name: str
    broker_name: str
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ReplicaInfoHeader(Header):
    broker_name: str


class ReplicaInfoReplyHeader(Header):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class ControllerMetadataReplyHeader(Header):
    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class BrokerRoleChangedHeader(Header):
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class CleanBrokerDataHeader(Header):
    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class NextBrokerIdHeader(Header):
    cluster_name: str
    broker_name: str


class NextBrokerIdReplyHeader(Header):
    cluster_name: str
    broker_name: str
    next_broker_id: Int64


class ApplyBrokerIdHeader(Header):
    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class ApplyBrokerIdReplyHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None
