"""The blocking twin of the admin, for programs without an event loop."""

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import Unpack, final

from roquet.client.admin import (
    groups as group_questions,
    messages as message_questions,
    topics as topic_questions,
)
from roquet.client.admin.accounts import AccountSettings, BrokerAccounts
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo, Promotion
from roquet.client.admin.config import AdminOptions
from roquet.client.admin.following import FollowFrom
from roquet.client.admin.groups import ClientConnection, GroupMembers, GroupSettings
from roquet.client.admin.member_info import MemberInfo
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.resets import ResetPlan, ResetTarget
from roquet.client.admin.topics import BrokerRoute, TopicSettings, TopicStatistics
from roquet.client.admin.traces import TraceEvent
from roquet.client.blocking.twin import BlockingTwin, described_by
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.codes import Permission


@final
@described_by(AsyncAdmin)
class Admin(BlockingTwin[AsyncAdmin]):
    """What operators do, for programs. `AsyncAdmin` is the same for asyncio.

    Topics, groups, offsets, messages, dead letters, brokers and their settings. Whatever asks
    servers raises NoNameServer, Unreachable or RequestRefused; what else may happen, each method
    says. `options` are the members of `AdminConfig`.

    For example:

        with Admin("127.0.0.1:9876") as admin:
            admin.create_topic("orders", TopicSettings(read_queue_count=8, write_queue_count=8))
            print(admin.topics(), admin.topic_statistics("orders").message_count)
            for broker in admin.brokers():
                print(broker.broker_name, broker.address)
    """

    def __init__(self, name_server: str | None = None, **options: Unpack[AdminOptions]) -> None:
        super().__init__(AsyncAdmin(name_server, **options), "admin")

    def topics(self, *, cluster: str | None = None, with_internal: bool = False) -> list[str]:
        return self._thread.run(self._twin.topics(cluster=cluster, with_internal=with_internal))

    def create_topic(
        self,
        topic: str,
        settings: TopicSettings = topic_questions.DEFAULT_SETTINGS,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        self._thread.run(self._twin.create_topic(topic, settings, cluster=cluster, broker=broker))

    def set_topic_permission(
        self, topic: str, permission: Permission, *, broker: str | None = None
    ) -> None:
        self._thread.run(self._twin.set_topic_permission(topic, permission, broker=broker))

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        self._thread.run(self._twin.delete_topic(topic, cluster=cluster))

    def topic_settings(self, topic: str) -> dict[str, TopicSettings]:
        return self._thread.run(self._twin.topic_settings(topic))

    def all_topic_settings(
        self, *, with_internal: bool = False
    ) -> dict[str, dict[str, TopicSettings]]:
        return self._thread.run(self._twin.all_topic_settings(with_internal=with_internal))

    def topic_route(self, topic: str) -> list[BrokerRoute]:
        return self._thread.run(self._twin.topic_route(topic))

    def topic_statistics(self, topic: str) -> TopicStatistics:
        return self._thread.run(self._twin.topic_statistics(topic))

    def topic_groups(self, topic: str) -> list[str]:
        return self._thread.run(self._twin.topic_groups(topic))

    def forbid_writes(self, broker: str) -> int:
        return self._thread.run(self._twin.forbid_writes(broker))

    def allow_writes(self, broker: str) -> int:
        return self._thread.run(self._twin.allow_writes(broker))

    def groups(self, *, with_internal: bool = False) -> list[str]:
        return self._thread.run(self._twin.groups(with_internal=with_internal))

    def create_group(
        self,
        group: str,
        settings: GroupSettings = group_questions.DEFAULT_SETTINGS,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        self._thread.run(self._twin.create_group(group, settings, cluster=cluster, broker=broker))

    def delete_group(
        self, group: str, *, cluster: str | None = None, keep_offsets: bool = False
    ) -> None:
        self._thread.run(self._twin.delete_group(group, cluster=cluster, keep_offsets=keep_offsets))

    def group_settings(self, group: str) -> dict[str, GroupSettings]:
        return self._thread.run(self._twin.group_settings(group))

    def members(self, group: str) -> GroupMembers:
        return self._thread.run(self._twin.members(group))

    def producers(self, group: str) -> list[ClientConnection]:
        return self._thread.run(self._twin.producers(group))

    def running_info(self, group: str, client_id: str) -> MemberInfo:
        return self._thread.run(self._twin.running_info(group, client_id))

    def progress(self, group: str, *, topic: str | None = None) -> GroupProgress:
        return self._thread.run(self._twin.progress(group, topic=topic))

    def plan_reset(
        self, group: str, topic: str, to: ResetTarget, *, queues: Sequence[QueueRef] | None = None
    ) -> ResetPlan:
        return self._thread.run(self._twin.plan_reset(group, topic, to, queues=queues))

    def apply_reset(self, plan: ResetPlan) -> None:
        self._thread.run(self._twin.apply_reset(plan))

    def message(self, topic: str, message_id: str) -> ReceivedMessage:
        return self._thread.run(self._twin.message(topic, message_id))

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = message_questions.COUNT_MAX,
    ) -> list[ReceivedMessage]:
        return self._thread.run(
            self._twin.messages_by_key(topic, key, begin=begin, end=end, count_max=count_max)
        )

    def messages_between(
        self,
        topic: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = message_questions.COUNT_MAX,
    ) -> list[ReceivedMessage]:
        return self._thread.run(
            self._twin.messages_between(topic, begin=begin, end=end, count_max=count_max)
        )

    def messages_of_queue(
        self, queue: QueueRef, offset: int, *, count_max: int = message_questions.COUNT_MAX
    ) -> list[ReceivedMessage]:
        return self._thread.run(self._twin.messages_of_queue(queue, offset, count_max=count_max))

    def follow(
        self,
        topic: str,
        start: FollowFrom = StartFrom.LAST,
        *,
        ends: Mapping[QueueRef, int] | None = None,
        tags: str | None = None,
        sql: str | None = None,
    ) -> Generator[ReceivedMessage, None, None]:
        return self._each(self._twin.follow(topic, start, ends=ends, tags=tags, sql=sql))

    def trace(self, message_id: str, *, topic: str | None = None) -> list[TraceEvent]:
        return self._thread.run(self._twin.trace(message_id, topic=topic))

    def dead_letter_counts(self) -> dict[str, TopicStatistics]:
        return self._thread.run(self._twin.dead_letter_counts())

    def each_dead_letter(
        self, group: str, *, begin: datetime | None = None, end: datetime | None = None
    ) -> Generator[ReceivedMessage, None, None]:
        return self._each(self._twin.each_dead_letter(group, begin=begin, end=end))

    def dead_letters(
        self,
        group: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = message_questions.COUNT_MAX,
    ) -> list[ReceivedMessage]:
        return self._thread.run(
            self._twin.dead_letters(group, begin=begin, end=end, count_max=count_max)
        )

    def resend(self, dead_letters: Sequence[ReceivedMessage]) -> list[SendReceipt]:
        return self._thread.run(self._twin.resend(dead_letters))

    def brokers(self, *, with_state: bool = True) -> list[BrokerInfo]:
        return self._thread.run(self._twin.brokers(with_state=with_state))

    def name_servers(self) -> dict[str, str | None]:
        return self._thread.run(self._twin.name_servers())

    def broker_runtime(self, address: str) -> dict[str, str]:
        return self._thread.run(self._twin.broker_runtime(address))

    def broker_config(self, address: str) -> dict[str, str]:
        return self._thread.run(self._twin.broker_config(address))

    def update_broker_config(self, address: str, settings: Mapping[str, str]) -> None:
        self._thread.run(self._twin.update_broker_config(address, settings))

    def promote_broker(self, address: str, *, force: bool = False) -> Promotion:
        return self._thread.run(self._twin.promote_broker(address, force=force))

    def demote_broker(self, address: str, broker_id: int, *, force: bool = False) -> None:
        self._thread.run(self._twin.demote_broker(address, broker_id, force=force))

    def broker_accounts(self, address: str) -> BrokerAccounts:
        return self._thread.run(self._twin.broker_accounts(address))

    def put_account(
        self,
        address: str,
        access_key: str,
        settings: AccountSettings,
        *,
        secret_key: str | None = None,
    ) -> None:
        self._thread.run(
            self._twin.put_account(address, access_key, settings, secret_key=secret_key)
        )

    def delete_account(self, address: str, access_key: str) -> None:
        self._thread.run(self._twin.delete_account(address, access_key))

    def kv_table(self, namespace: str) -> dict[str, str]:
        return self._thread.run(self._twin.kv_table(namespace))

    def kv_value(self, namespace: str, key: str) -> str | None:
        return self._thread.run(self._twin.kv_value(namespace, key))

    def put_kv(self, namespace: str, key: str, value: str) -> None:
        self._thread.run(self._twin.put_kv(namespace, key, value))

    def delete_kv(self, namespace: str, key: str) -> None:
        self._thread.run(self._twin.delete_kv(namespace, key))
