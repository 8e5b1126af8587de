"""What Apache's settings promise and this broker does not do; see `roquet.settings.promises`."""

from typing import Final

from roquet.settings.promises import (
    Promise,
    is_anything,
    is_false,
    is_more_than_one,
    is_other_than,
)
from roquet.settings.truth import read_truth

_ACCOUNTS: Final = "set it to false, and use aclEnable, with accounts in a file"
_ALONE: Final = (
    "take it out; with replication.etcd another broker steps in, see docs/replication.md"
)
_ONE_COPY: Final = (
    "take it out; replication.acknowledge says how many have a message: async, one or quorum"
)
_NAMED: Final = "set it to false, and name the servers in namesrvAddr"
_PAGE: Final = "set it to false, and name the page: namesrvAddr=http://host:8080/rocketmq/nsaddr"
_ROCKSDB: Final = "what Apache keeps there is not seen: let Apache work it off, then take it out"
_NO_LIGHT_QUEUES: Final = "set it to false, and use topics"

_USERS: Final = Promise(read_truth, "users and policies in a database", _ACCOUNTS)
_REPLICAS: Final = Promise(is_more_than_one, "copies on several brokers", _ONE_COPY)
_FAIL_OVER: Final = Promise(read_truth, "that another broker steps in", _ALONE)
_IN_ROCKSDB: Final = Promise(read_truth, "messages in a RocksDB database", _ROCKSDB)

PROMISES: Final = {
    # Who may do what, and who may listen.
    "authenticationEnabled": _USERS,
    "authorizationEnabled": _USERS,
    "rejectPullConsumerEnable": Promise(
        read_truth, "that consumers which only pull are kept out", "set it to false"
    ),
    "litePullMessageEnable": Promise(
        is_false, "that lite pull consumers are kept out", "set it to true"
    ),
    # Copies.
    "inSyncReplicas": _REPLICAS,
    "minInSyncReplicas": _REPLICAS,
    "totalReplicas": _REPLICAS,
    "allAckInSyncStateSet": Promise(read_truth, "that all copies are waited for", _ONE_COPY),
    "duplicationEnable": Promise(read_truth, "two masters with one log", _ALONE),
    "asyncLearner": Promise(read_truth, "a copy that nobody counts", _ONE_COPY),
    "enableDLegerCommitLog": _FAIL_OVER,
    "enableControllerMode": _FAIL_OVER,
    "enableSlaveActingMaster": _FAIL_OVER,
    "enableRemoteEscape": _FAIL_OVER,
    # Where name servers are.
    "fetchNamesrvAddrByAddressServer": Promise(
        read_truth, "that name servers are found at an address it does not name", _PAGE
    ),
    "fetchNameSrvAddrByDnsLookup": Promise(
        read_truth, "that name servers are found by DNS", _NAMED
    ),
    # Where messages and offsets are. Those in other places would be missing.
    "storeType": Promise(is_other_than("", "default"), "queues in a RocksDB database", _ROCKSDB),
    "configManagerVersion": Promise(
        is_other_than("", "v1"), "topics and offsets in a RocksDB database", _ROCKSDB
    ),
    "timerRocksDBEnable": _IN_ROCKSDB,
    "transRocksDBEnable": _IN_ROCKSDB,
    "messageStorePlugIn": Promise(
        is_anything, "a store that is plugged in", "take it out; messages are kept on local disks"
    ),
    "readOnlyCommitLogStorePaths": Promise(
        is_anything,
        "messages in further directories",
        "move their files into the directory of storePathCommitLog, and take it out",
    ),
    "enableConsumeQueueExt": Promise(
        read_truth,
        "queue entries that point into a second file",
        "set it to false, and make the queues again with `roquet store repair`",
    ),
    "enableLmq": Promise(read_truth, "light message queues", _NO_LIGHT_QUEUES),
    "enableMultiDispatch": Promise(read_truth, "light message queues", _NO_LIGHT_QUEUES),
    # Emergency switches.
    "timerStopEnqueue": Promise(read_truth, "that no timed message is taken", "set it to false"),
    "timerStopDequeue": Promise(
        read_truth, "that no timed message is delivered", "set it to false"
    ),
}
