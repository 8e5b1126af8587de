"""Java's own classes read the JSON bodies that we write, and we read what they write.

A body in which every member has a value goes through Java and comes back. What is missing then
is what Java did not understand.
"""

from collections.abc import Callable

import pytest

from roquet.protocol.bodies import (
    accounts,
    assignment,
    batch_ack,
    connection,
    consume_queue,
    consume_stats,
    data_version,
    group_config,
    heartbeat,
    kv_table,
    lock,
    names,
    offset_table,
    registration,
    replicas,
    route,
    running_info,
    subscription_data,
    topic_config,
    topic_stats,
)
from roquet.protocol.bodies.body import Body, read_body, write_body
from tests.interop.telling_values import members, telling_value
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

# Which Java class reads which of our bodies; found in the packages that ToolCommands.java names.
BOTH = (
    (connection.ConsumerConnections, "body.ConsumerConnection"),
    (connection.ProducerConnections, "body.ProducerConnection"),
    (connection.ProducerTable, "body.ProducerTableInfo"),
    (consume_queue.ConsumeQueueView, "body.QueryConsumeQueueResponseBody"),
    (consume_stats.BrokerStats, "body.BrokerStatsData"),
    (consume_stats.ConsumeStats, "admin.ConsumeStats"),
    (consume_stats.ConsumeStatsList, "body.ConsumeStatsList"),
    (consume_stats.ConsumeTimeSpans, "body.QueryConsumeTimeSpanBody"),
    (data_version.DataVersion, "DataVersion"),
    (group_config.GroupConfig, "subscription.SubscriptionGroupConfig"),
    (group_config.GroupConfigTable, "body.SubscriptionGroupWrapper"),
    (heartbeat.Heartbeat, "heartbeat.HeartbeatData"),
    (kv_table.KvTable, "body.KVTable"),
    (lock.LockedQueues, "body.LockBatchResponseBody"),
    (lock.QueueLockRequest, "body.LockBatchRequestBody"),
    (lock.QueueLockRequest, "body.UnlockBatchRequestBody"),
    (names.ConsumerIds, "header.GetConsumerListByGroupResponseBody"),
    (names.GroupList, "body.GroupList"),
    (names.TopicList, "body.TopicList"),
    (offset_table.ConsumerOffsetTable, "body.ConsumerOffsetSerializeWrapper"),
    (offset_table.ConsumerStatus, "body.GetConsumerStatusBody"),
    (offset_table.CorrectionOffsets, "body.QueryCorrectionOffsetBody"),
    (offset_table.DelayOffsetTable, "schedule.DelayOffsetSerializeWrapper"),
    (offset_table.ResetOffsetList, "body.ResetOffsetBodyForC"),
    (offset_table.ResetOffsets, "body.ResetOffsetBody"),
    (registration.BrokerRegistration, "body.RegisterBrokerBody"),
    (route.ClusterInfo, "body.ClusterInfo"),
    (route.TopicRoute, "route.TopicRouteData"),
    (running_info.ConsumerRunningInfo, "body.ConsumerRunningInfo"),
    (running_info.DirectConsumeResult, "body.ConsumeMessageDirectlyResult"),
    (subscription_data.SubscriptionCheck, "body.CheckClientRequestBody"),
    (topic_config.TopicConfig, "TopicConfig"),
    (topic_stats.TopicStats, "admin.TopicStatsTable"),
)
ONLY_4 = (
    (accounts.PlainAccounts, "AclConfig"),
    (topic_config.TopicConfigTable, "body.TopicConfigSerializeWrapper"),
)
ONLY_5 = (
    (accounts.Acl, "body.AclInfo"),
    (accounts.User, "body.UserInfo"),
    (assignment.AssignmentQuery, "body.QueryAssignmentRequestBody"),
    (assignment.QueueAssignments, "body.QueryAssignmentResponseBody"),
    (assignment.RequestModeSetting, "body.SetMessageRequestModeRequestBody"),
    (assignment.RequestModeTable, "body.MessageRequestModeSerializeWrapper"),
    (batch_ack.BatchAckRequest, "body.BatchAckMessageRequestBody"),
    (group_config.GroupConfigList, "body.SubscriptionGroupList"),
    (group_config.GroupForbidden, "subscription.GroupForbidden"),
    (replicas.EpochList, "body.EpochEntryCache"),
    (replicas.HaStatus, "body.HARuntimeInfo"),
    (route.BrokerMemberGroupReply, "body.GetBrokerMemberGroupResponseBody"),
    (subscription_data.GroupSubscription, "body.QuerySubscriptionResponseBody"),
    (topic_config.QueueMappingDetail, "statictopic.TopicQueueMappingDetail"),
    (topic_config.TopicConfigList, "body.CreateTopicListRequestBody"),
    (topic_config.TopicConfigTable, "body.TopicConfigAndMappingSerializeWrapper"),
)
BODIES = {ApacheVersion.V4_9_7: BOTH + ONLY_4, ApacheVersion.V5_5_0: BOTH + ONLY_5}

# A member that none of these classes reads, or that a broker writes and never reads.
_UNKNOWN_TO_ALL = {
    "BatchAck.broker_name",
    "ConsumerOffsetTable.group_topic_map",
    "ConsumerOffsetTable.pull_offset_table",
    "ConsumerOffsetTable.transaction_progress",
    "DelayOffsetTable.true_at",
    "TopicConfig.mapping_detail",
}
UNKNOWN = {
    ApacheVersion.V4_9_7: _UNKNOWN_TO_ALL
    | {
        "BrokerData.enable_acting_master",
        "BrokerData.zone_name",
        "ConsumeOffsets.pull_offset",
        "ConsumeStatsList.total_inflight_diff",
        "ConsumerOffsetTable.data_version",
        "ConsumerRunningInfo.mq_pop_table",
        "ConsumerRunningInfo.user_consumer_info",
        "DataVersion.state_version",
        "DelayOffsetTable.data_version",
        "GroupConfig.attributes",
        "GroupConfig.consume_message_orderly",
        "GroupConfig.consume_timeout_minute",
        "GroupConfig.group_retry_policy",
        "GroupConfig.group_sys_flag",
        "GroupConfig.subscription_data_set",
        "GroupConfigTable.forbidden_table",
        "Heartbeat.heartbeat_fingerprint",
        "Heartbeat.without_sub",
        "QueueLockRequest.only_this_broker",
        "SubscriptionCheck.namespace",
        "TopicConfig.attributes",
        "TopicConfigTable.mapping_data_version",
        "TopicConfigTable.topic_queue_mapping_detail_map",
        "TopicConfigTable.topic_queue_mapping_info_map",
        "TopicRoute.topic_queue_mapping_by_broker",
        "TopicStats.topic_put_tps",
    },
    ApacheVersion.V5_5_0: _UNKNOWN_TO_ALL,
}


@pytest.mark.parametrize(
    ("version", "body_type", "java_class"),
    [(version, *pair) for version, pairs in BODIES.items() for pair in pairs],
)
def test_java_understands_every_member_it_knows(
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    version: ApacheVersion,
    body_type: type[Body],
    java_class: str,
) -> None:
    value = telling_value(body_type)
    answer = java_drivers(version).reserialize(java_class, write_body(value))
    said, understood = members(value), members(read_body(body_type, answer))
    lost = {place for place in said if understood.get(place) != said[place]}
    assert lost == {place for place in said if UNKNOWN[version].intersection(place.split("/"))}
