"""Java's own classes read the JSON bodies that we write, and we read what they write.

A body in which every member has a value goes through Java and comes back. What is missing then
is what Java did not understand.
"""

from collections.abc import Callable

import pytest

from roquet.protocol.bodies import (
    body,
    brokers,
    clients,
    groups,
    name_server,
    offsets,
    pop,
    topics,
)
from roquet.protocol.bodies.body import Body, read_body, write_body
from tests.interop.telling_values import members, telling_value
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

# Which Java class reads which of our bodies; found in the packages that ToolCommands.java names.
BOTH = (
    (clients.ConsumerConnections, "body.ConsumerConnection"),
    (clients.ProducerConnections, "body.ProducerConnection"),
    (clients.ProducerTable, "body.ProducerTableInfo"),
    (topics.ConsumeQueueView, "body.QueryConsumeQueueResponseBody"),
    (brokers.BrokerStats, "body.BrokerStatsData"),
    (offsets.ConsumeStats, "admin.ConsumeStats"),
    (offsets.ConsumeStatsList, "body.ConsumeStatsList"),
    (offsets.ConsumeTimeSpans, "body.QueryConsumeTimeSpanBody"),
    (body.DataVersion, "DataVersion"),
    (groups.GroupConfig, "subscription.SubscriptionGroupConfig"),
    (groups.GroupConfigTable, "body.SubscriptionGroupWrapper"),
    (clients.Heartbeat, "heartbeat.HeartbeatData"),
    (name_server.KvTable, "body.KVTable"),
    (groups.LockedQueues, "body.LockBatchResponseBody"),
    (groups.QueueLockRequest, "body.LockBatchRequestBody"),
    (groups.QueueLockRequest, "body.UnlockBatchRequestBody"),
    (groups.ConsumerIds, "header.GetConsumerListByGroupResponseBody"),
    (groups.GroupList, "body.GroupList"),
    (topics.TopicList, "body.TopicList"),
    (offsets.ConsumerOffsetTable, "body.ConsumerOffsetSerializeWrapper"),
    (offsets.ConsumerStatus, "body.GetConsumerStatusBody"),
    (offsets.CorrectionOffsets, "body.QueryCorrectionOffsetBody"),
    (offsets.DelayOffsetTable, "schedule.DelayOffsetSerializeWrapper"),
    (offsets.ResetOffsetList, "body.ResetOffsetBodyForC"),
    (offsets.ResetOffsets, "body.ResetOffsetBody"),
    (name_server.BrokerRegistration, "body.RegisterBrokerBody"),
    (name_server.ClusterInfo, "body.ClusterInfo"),
    (name_server.TopicRoute, "route.TopicRouteData"),
    (clients.ConsumerRunningInfo, "body.ConsumerRunningInfo"),
    (clients.DirectConsumeResult, "body.ConsumeMessageDirectlyResult"),
    (clients.SubscriptionCheck, "body.CheckClientRequestBody"),
    (topics.TopicConfig, "TopicConfig"),
    (topics.TopicStats, "admin.TopicStatsTable"),
)
ONLY_4 = (
    (brokers.AccountConfigs, "AclConfig"),
    (topics.TopicConfigTable, "body.TopicConfigSerializeWrapper"),
)
ONLY_5 = (
    (brokers.Acl, "body.AclInfo"),
    (brokers.User, "body.UserInfo"),
    (pop.AssignmentQuery, "body.QueryAssignmentRequestBody"),
    (pop.QueueAssignments, "body.QueryAssignmentResponseBody"),
    (pop.RequestModeSetting, "body.SetMessageRequestModeRequestBody"),
    (pop.RequestModeTable, "body.MessageRequestModeSerializeWrapper"),
    (pop.BatchAckRequest, "body.BatchAckMessageRequestBody"),
    (groups.GroupConfigList, "body.SubscriptionGroupList"),
    (groups.GroupForbidden, "subscription.GroupForbidden"),
    (brokers.EpochList, "body.EpochEntryCache"),
    (brokers.HaStatus, "body.HARuntimeInfo"),
    (name_server.BrokerMemberGroupReply, "body.GetBrokerMemberGroupResponseBody"),
    (clients.GroupSubscription, "body.QuerySubscriptionResponseBody"),
    (topics.QueueMappingDetail, "statictopic.TopicQueueMappingDetail"),
    (topics.TopicConfigList, "body.CreateTopicListRequestBody"),
    (topics.TopicConfigTable, "body.TopicConfigAndMappingSerializeWrapper"),
)
BODIES = {ApacheVersion.V4_9_7: BOTH + ONLY_4, ApacheVersion.V5_5_0: BOTH + ONLY_5}

# A member that none of these classes reads, or that a broker writes and never reads.
_UNKNOWN_TO_ALL = {
    "BatchAck.broker_name",
    "ClusterInfo.lost_brokers",
    "ConsumerConnections.past_members",
    "ConsumerOffsetTable.group_topic_map",
    "ConsumerOffsetTable.pop_progress",
    "ConsumerOffsetTable.pull_offset_table",
    "ConsumerOffsetTable.transaction_progress",
    "ConsumerRunningInfo.held_messages",
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
    printed, understood = members(value), members(read_body(body_type, answer))
    lost = {place for place in printed if understood.get(place) != printed[place]}
    assert lost == {place for place in printed if UNKNOWN[version].intersection(place.split("/"))}
