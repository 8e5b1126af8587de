"""Administration of a cluster, for the event loop: what operators and their tools do.

    async with AsyncAdmin("127.0.0.1:9876") as admin:
        progress = await admin.progress("billing")
        plan = await admin.plan_reset("billing", "orders", StartFrom.FIRST)
        await admin.apply_reset(plan)

Nothing is cached: every call asks the servers. Requests are made in the modules beside this one.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from datetime import datetime
from typing import Final, Unpack, final

from roquet.client.admin import (
    cluster as cluster_queries,
    dead_letters as dead_letter_notes,
    groups as group_queries,
    inspection,
    messages as message_queries,
    missing as missing_brokers,
    producers as producer_queries,
    progress as progress_queries,
    resets,
    sending,
    topics as topic_queries,
    tracking,
    users as user_queries,
    waiting as waiting_queries,
)
from roquet.client.admin.cluster import AccountSettings, BrokerAccounts, BrokerInfo, Promotion
from roquet.client.admin.dead_letters import LetterPlace, Resent
from roquet.client.admin.deliveries import Deliveries
from roquet.client.admin.follow import FollowFrom, follow
from roquet.client.admin.groups import GroupMembers, GroupSettings, MemberInfo, MemberSilent
from roquet.client.admin.messages import TraceEvent
from roquet.client.admin.missing import LostBroker, MissingBroker, MissingBrokers
from roquet.client.admin.producers import ConnectedProducer
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.resets import ResetPlan, ResetTarget
from roquet.client.admin.servers import AdminConfig, AdminOptions, AdminServers
from roquet.client.admin.topics import BrokerRoute, TopicSettings, TopicStatistics
from roquet.client.admin.users import UserSettings
from roquet.client.admin.waiting import WaitingMessages
from roquet.client.cluster.instance import ClientInstance, ToolSession
from roquet.client.group.start_offset import StartFrom
from roquet.client.group.subscriptions import subscription_of
from roquet.client.lifecycle import AsyncResource, Lifecycle
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.protocol.codes import Permission
from roquet.protocol.messages.message import Message

_WHAT: Final = "admin"


@final
class AsyncAdmin(AsyncResource):
    """Administration of a cluster, for programs.

    Belongs to the loop and the process that opened it; `options` are members of `AdminConfig`. All
    that asks servers raises NoNameServer, Unreachable or RequestRefused, besides its own errors.

    For example:

        async with AsyncAdmin("127.0.0.1:9876") as admin:
            print(await admin.topics(), await admin.groups())
    """

    def __init__(self, name_server: str | None = None, **options: Unpack[AdminOptions]) -> None:
        self._config = AdminConfig(name_server=name_server, **options)
        self._clock = SystemClock()
        # None unless answers in part are wanted.
        self._missing: MissingBrokers | None = None
        self._lifecycle = Lifecycle(
            _WHAT, lambda: ToolSession(_WHAT, self._config, self._new_servers)
        )

    async def open(self) -> None:
        """No server is asked yet. Raises NotOpen after `close`."""
        await self._lifecycle.open()

    async def close(self) -> None:
        """A second time does nothing."""
        await self._lifecycle.close()

    def partial(self) -> "AsyncAdmin":
        """The same admin for answers in part, without the brokers that cannot be asked.

        Its questions raise neither Unreachable nor, unless all brokers refuse, RequestRefused.
        `missing` has the brokers that any of its answers is without: a topic, group or message
        that is not found may be theirs. A broker that did not answer is not asked again, so make
        a new one for new answers. Changes are made everywhere, or raise.

        For example:

            partial = admin.partial()
            print(await partial.progress("billing"), "without", partial.missing)
        """
        view = copy(self)
        view._missing = MissingBrokers()  # noqa: SLF001  Its own.
        return view

    @property
    def missing(self) -> tuple[MissingBroker, ...]:
        """The brokers that answers in part are without; empty if they are whole."""
        return tuple(self._missing or ())

    # Topics.

    async def topics(self, *, cluster: str | None = None, with_internal: bool = False) -> list[str]:
        """The topics of programs; `with_internal` adds retry, dead-letter and system topics."""
        return await topic_queries.list_topics(
            self._servers(), cluster, with_internal=with_internal
        )

    async def create_topic(
        self,
        topic: str,
        settings: TopicSettings = topic_queries.DEFAULT_SETTINGS,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """At all masters, those of a cluster, or one; an existing topic gets the new settings.

        Raises BadArgument.
        """
        servers = self._servers()
        await topic_queries.put_topic(servers, servers.wire_name(topic), settings, cluster, broker)

    async def set_topic_permission(
        self, topic: str, permission: Permission, *, broker: str | None = None
    ) -> None:
        """Whether it may be read and written, everywhere or at one broker. Raises TopicNotFound."""
        servers = self._servers()
        await topic_queries.set_permission(servers, servers.wire_name(topic), permission, broker)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """With all its messages; a topic that does not exist is no error."""
        servers = self._servers()
        await topic_queries.delete_topic(servers, servers.wire_name(topic), cluster)

    async def topic_settings(self, topic: str) -> dict[str, TopicSettings]:
        """By broker name. Raises TopicNotFound."""
        servers = self._servers()
        return await topic_queries.topic_settings(servers, servers.wire_name(topic))

    async def all_topic_settings(
        self, *, with_internal: bool = False
    ) -> dict[str, dict[str, TopicSettings]]:
        """Of all topics that `topics` returns, each by broker name."""
        return await topic_queries.all_topic_settings(self._servers(), with_internal=with_internal)

    async def topic_route(self, topic: str) -> list[BrokerRoute]:
        """As registered at name servers. Raises TopicNotFound."""
        servers = self._servers()
        return await topic_queries.topic_route(servers, servers.wire_name(topic))

    async def topic_statistics(self, topic: str) -> TopicStatistics:
        """Raises TopicNotFound."""
        servers = self._servers()
        return await topic_queries.topic_statistics(servers, servers.wire_name(topic))

    async def first_stored(self, topic: str) -> dict[QueueRef, datetime]:
        """When the oldest message of each queue was stored; empty queues are left out.

        Raises TopicNotFound.
        """
        servers = self._servers()
        return await topic_queries.first_stored(servers, servers.wire_name(topic))

    async def topic_groups(self, topic: str) -> list[str]:
        """The groups that read it now or did before. Raises TopicNotFound."""
        servers = self._servers()
        return await topic_queries.groups_of(servers, servers.wire_name(topic))

    async def forbid_writes(self, broker: str) -> int:
        """Keeps producers away from a broker, for maintenance. Returns the number of topics.

        It holds until `allow_writes`: slaves of Roquet are changed, too, so that a switch keeps it.
        """
        return await topic_queries.forbid_writes(self._servers(), broker)

    async def allow_writes(self, broker: str) -> int:
        """Reverts `forbid_writes`."""
        return await topic_queries.allow_writes(self._servers(), broker)

    # Groups.

    async def groups(self, *, with_internal: bool = False) -> list[str]:
        """The groups of programs; `with_internal` adds those of the system."""
        return await group_queries.list_groups(self._servers(), with_internal=with_internal)

    async def create_group(
        self,
        group: str,
        settings: GroupSettings = group_queries.DEFAULT_SETTINGS,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """At all masters, those of a cluster, or one; an existing group gets the new settings.

        Raises BadArgument.
        """
        servers = self._servers()
        await group_queries.put_group(servers, servers.wire_name(group), settings, cluster, broker)

    async def delete_group(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        keep_offsets: bool = False,
    ) -> None:
        """With its retries, not its dead letters; a group that does not exist is no error.

        At one `broker` only its settings and offsets are deleted.
        """
        servers = self._servers()
        await group_queries.delete_group(
            servers, servers.wire_name(group), cluster, broker, keep_offsets=keep_offsets
        )

    async def group_settings(self, group: str) -> dict[str, GroupSettings]:
        """By broker name; empty if no broker knows the group."""
        servers = self._servers()
        return await group_queries.group_settings(servers, servers.wire_name(group))

    async def all_group_settings(self) -> dict[str, dict[str, GroupSettings]]:
        """Of all groups, by group and broker name, with one request to each broker."""
        return await group_queries.all_group_settings(self._servers())

    async def members(self, group: str) -> GroupMembers:
        """The consumers of a group that are connected now."""
        servers = self._servers()
        return await group_queries.group_members(servers, servers.wire_name(group))

    async def producers(
        self, group: str | None = None, *, topic: str | None = None, broker: str | None = None
    ) -> list[ConnectedProducer]:
        """The producers that are connected now: of all groups, or of one.

        Brokers do not record who sends to which topic: `topic` asks those that have it.
        """
        servers = self._servers()
        wire_group = None if group is None else servers.wire_name(group)
        wire_topic = None if topic is None else servers.wire_name(topic)
        return await producer_queries.list_producers(servers, wire_group, wire_topic, broker)

    async def running_info(
        self, group: str, client_id: str, *, with_stacks: bool = False
    ) -> MemberInfo:
        """The state of a consumer, as it reports it. Raises NotConnected."""
        servers = self._servers()
        return await group_queries.running_info(
            servers, servers.wire_name(group), client_id, with_stacks=with_stacks
        )

    async def running_infos(
        self, group: str, *, with_stacks: bool = False
    ) -> dict[str, MemberInfo | MemberSilent]:
        """The same of all members that are connected, by client id."""
        servers = self._servers()
        return await group_queries.running_infos(
            servers, servers.wire_name(group), with_stacks=with_stacks
        )

    # Progress and offsets.

    async def progress(self, group: str, *, topic: str | None = None) -> GroupProgress:
        """How far a group is, in all its topics or in one.

        Raises GroupNotFound or TopicNotFound.
        """
        servers = self._servers()
        wire_topic = None if topic is None else servers.wire_name(topic)
        return await progress_queries.group_progress(
            servers, self._clock, servers.wire_name(group), wire_topic
        )

    async def all_progress(
        self, *, broker: str | None = None, ordered_only: bool = False
    ) -> list[GroupProgress]:
        """The progress of all groups, without `time_lag`; each broker is asked once.

        A queue without a committed offset counts from 0, as brokers report it.
        """
        return await inspection.all_progress(self._servers(), broker, ordered_only=ordered_only)

    async def traffic(self, topic: str, *, group: str | None = None) -> inspection.Traffic:
        """Messages sent to a topic, or taken from it by a group. Raises TopicNotFound."""
        servers = self._servers()
        wire_group = None if group is None else servers.wire_name(group)
        return await inspection.traffic(servers, servers.wire_name(topic), wire_group)

    async def waiting_messages(self) -> WaitingMessages:
        """Retries, delayed and half messages that wait at masters."""
        return await waiting_queries.waiting_messages(self._servers())

    async def plan_reset(
        self,
        group: str,
        topic: str,
        to: ResetTarget,
        *,
        queues: Sequence[QueueRef] | None = None,
    ) -> ResetPlan:
        """The effect of moving a group; nothing is changed.

        Raises TopicNotFound, and BadArgument for queues of other topics.
        """
        servers = self._servers()
        return await resets.plan_reset(
            servers, servers.wire_name(group), servers.wire_name(topic), to, queues
        )

    async def apply_reset(self, plan: ResetPlan) -> None:
        """Moves the group. Connected members need some seconds to resume there.

        Raises MembersConnected when a broker cannot do it now; then nothing was changed.
        """
        await resets.apply_reset(self._servers(), plan)

    # Messages.

    async def message(self, topic: str, message_id: str) -> ReceivedMessage:
        """By its message id or its offset id. Raises MessageNotFound."""
        servers = self._servers()
        wire_topic = servers.wire_name(topic)
        return await message_queries.message_by_id(servers, self._clock, wire_topic, message_id)

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = message_queries.COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """Oldest first, stored between two moments. Raises TopicNotFound or BadArgument."""
        servers = self._servers()
        wire_topic = servers.wire_name(topic)
        return await message_queries.messages_by_key(
            servers, wire_topic, key, begin, end, count_max
        )

    async def messages_between(
        self,
        topic: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = message_queries.COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """Oldest first, stored between two moments. Raises TopicNotFound or BadArgument."""
        servers = self._servers()
        wire_topic = servers.wire_name(topic)
        return await message_queries.messages_between(servers, wire_topic, begin, end, count_max)

    async def messages_of_queue(
        self, queue: QueueRef, offset: int, *, count_max: int = message_queries.COUNT_MAX
    ) -> list[ReceivedMessage]:
        """The messages from an offset on. Raises TopicNotFound."""
        servers = self._servers()
        wire_queue = queue._replace(topic=servers.wire_name(queue.topic))
        return await message_queries.messages_of_queue(servers, wire_queue, offset, count_max)

    async def deliveries(self, message: ReceivedMessage) -> Deliveries:
        """What became of a message, found by one of the methods above, in each group.

        Brokers that do not answer are listed in the result.
        """
        return await tracking.deliveries_of(self._servers(), message)

    async def queue_entries(
        self, queue: QueueRef, offset: int, *, count_max: int = 10, group: str | None = None
    ) -> inspection.QueueEntries:
        """Entries of a consume queue, and the subscription of a group. Raises BadArgument."""
        servers = self._servers()
        wire_queue = queue._replace(topic=servers.wire_name(queue.topic))
        wire_group = None if group is None else servers.wire_name(group)
        return await inspection.queue_entries(servers, wire_queue, offset, count_max, wire_group)

    async def follow(
        self,
        topic: str,
        start: FollowFrom = StartFrom.LAST,
        *,
        ends: Mapping[QueueRef, int] | None = None,
        tags: str | None = None,
        sql: str | None = None,
    ) -> AsyncGenerator[ReceivedMessage]:
        """Messages as they arrive, without a group; up to offsets, or without end.

        Close the generator to stop it. Raises TopicNotFound, RequestRefused or BadArgument.
        """
        servers = self._servers()
        subscription = subscription_of(servers.wire_name(topic), tags, sql)
        async with aclosing(follow(servers, subscription, start, ends)) as messages:
            async for message in messages:
                yield message

    async def trace(self, message_id: str, *, topic: str | None = None) -> list[TraceEvent]:
        """From the default trace topic or another; oldest first, empty if no client traced it."""
        return await message_queries.trace_of(self._servers(), message_id, topic)

    async def dead_letter_counts(self) -> dict[str, TopicStatistics]:
        """The number of dead letters, by group."""
        return await message_queries.dead_letter_counts(self._servers())

    async def each_dead_letter(
        self, group: str, *, begin: datetime | None = None, end: datetime | None = None
    ) -> AsyncGenerator[ReceivedMessage]:
        """All dead letters one by one, queue by queue, without a limit."""
        servers = self._servers()
        found = message_queries.each_dead_letter(servers, servers.wire_name(group), begin, end)
        async with aclosing(found) as messages:
            async for message in messages:
                yield message

    async def dead_letters(
        self,
        group: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = message_queries.COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """Messages that the group gave up, or failed to consume too often; oldest first.

        `topic` is the topic it was sent to, `dlq_reason` why it is a dead letter.
        """
        servers = self._servers()
        wire_group = servers.wire_name(group)
        return await message_queries.dead_letters(servers, wire_group, begin, end, count_max)

    async def send(self, message: Message) -> SendReceipt:
        """A message of an operator, as a test. Raises SendError and BadArgument."""
        return await sending.send(self._servers(), message)

    async def resend(self, dead_letters: Sequence[ReceivedMessage]) -> list[SendReceipt]:
        """Sends dead letters to the topics they came from, for all groups that read these.

        Each is a new message with the old body, tags, keys and properties; the dead letter stays,
        and `resent` has it from then on. Raises BadArgument for a message that is no dead letter,
        and SomeFailed.
        """
        return await dead_letter_notes.resend(self._servers(), dead_letters)

    async def resent(self, group: str) -> dict[LetterPlace, Resent]:
        """The dead letters of a group that were sent again, by their places."""
        servers = self._servers()
        return await dead_letter_notes.resent_of(servers, servers.wire_name(group))

    # The cluster.

    async def brokers(self, *, with_state: bool = True) -> list[BrokerInfo]:
        """All masters and slaves, reachable or not.

        Without their state only name servers are asked.
        """
        return await cluster_queries.list_brokers(self._servers(), with_state=with_state)

    async def name_servers(self) -> dict[str, str | None]:
        """The error of each name server, by address; None if it works."""
        return await cluster_queries.name_server_errors(self._servers())

    async def lost_brokers(self) -> list[LostBroker] | None:
        """Those that left within the last day without unregistering; the first lost comes first.

        None if it cannot be known: name servers of Apache do not remember brokers that left.
        """
        return await missing_brokers.lost_brokers(self._servers())

    async def forget_broker(self, lost: LostBroker) -> None:
        """Removes a lost broker from the memory of name servers: it will not come back."""
        await missing_brokers.forget_broker(self._servers(), lost)

    async def broker_runtime(self, address: str) -> dict[str, str]:
        """The runtime information of a broker, under Apache's names."""
        return await cluster_queries.runtime_info(self._servers(), address)

    async def broker_config(self, address: str) -> dict[str, str]:
        """The settings of a broker, under Apache's names."""
        return await cluster_queries.broker_config(self._servers(), address)

    async def update_broker_config(self, address: str, settings: Mapping[str, str]) -> None:
        """Changes settings of a running broker, under Apache's names."""
        await cluster_queries.update_broker_config(self._servers(), address, settings)

    async def broker_tables(self, address: str) -> inspection.BrokerTables:
        """All topics and groups of a broker in full, under Apache's names."""
        return await inspection.broker_tables(self._servers(), address)

    async def replication_status(self, address: str) -> inspection.ReplicationStatus:
        """Brokers of 4.9 do not report it: RequestRefused."""
        return await inspection.replication_status(self._servers(), address)

    async def clean(
        self, what: inspection.Cleaning, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Deletes consume queues that are no longer needed. Returns the names of the brokers."""
        return await inspection.clean(self._servers(), what, cluster, broker)

    async def promote_broker(self, address: str, *, force: bool = False) -> Promotion:
        """Makes the slave at this address the master of the next epoch; Roquet brokers only.

        Raises NotTheLongestLog if another slave has more, or does not answer. `force` promotes it
        all the same, and even if its master is running.
        """
        return await cluster_queries.promote_broker(self._servers(), address, force=force)

    async def demote_broker(self, address: str, broker_id: int, *, force: bool = False) -> None:
        """Makes the master at this address a slave with this id; Roquet brokers only.

        Unless `force` is set, it waits for a slave with all messages. etcd elects another master.
        """
        await cluster_queries.demote_broker(self._servers(), address, broker_id, force=force)

    # Accounts, where there is access control. Each broker, master or slave, has its own.

    async def broker_accounts(self, address: str) -> BrokerAccounts:
        """The accounts of the broker at this address, without their secrets."""
        return await cluster_queries.accounts_at(self._servers(), address)

    async def put_account(
        self,
        address: str,
        access_key: str,
        settings: AccountSettings,
        *,
        secret_key: str | None = None,
    ) -> None:
        """Creates or changes an account; without `secret_key` it keeps its secret."""
        servers = self._servers()
        await cluster_queries.put_account(servers, address, access_key, settings, secret_key)

    async def delete_account(self, address: str, access_key: str) -> None:
        """Raises RequestRefused for an account that does not exist."""
        await cluster_queries.delete_account(self._servers(), address, access_key)

    async def broker_users(self, address: str) -> dict[str, UserSettings]:
        """The users of 5.x of the broker at this address, without their passwords."""
        return await user_queries.users_at(self._servers(), address)

    async def put_user(
        self, address: str, name: str, settings: UserSettings, *, password: str | None = None
    ) -> None:
        """Creates or changes a user and its policies; only a new one needs a password."""
        await user_queries.put_user(self._servers(), address, name, settings, password)

    async def copy_user(self, source: str, target: str, name: str) -> None:
        """With password and policies. Raises BadArgument if `source` has no such user."""
        await user_queries.copy_user(self._servers(), source, target, name)

    async def delete_user(self, address: str, name: str) -> None:
        """With its policies."""
        await user_queries.delete_user(self._servers(), address, name)

    # Settings of name servers, and the key-value pairs that they keep.

    async def name_server_config(self) -> dict[str, dict[str, str]]:
        """The settings of each name server, by address, under Apache's names."""
        return await inspection.name_server_config(self._servers())

    async def update_name_server_config(self, settings: Mapping[str, str]) -> None:
        """Changes settings of all name servers, which share no state."""
        await inspection.update_name_server_config(self._servers(), settings)

    async def kv_table(self, namespace: str) -> dict[str, str]:
        """All values in a namespace of the name servers, such as "ORDER_TOPIC_CONFIG"."""
        return await cluster_queries.kv_table(self._servers(), namespace)

    async def kv_value(self, namespace: str, key: str) -> str | None:
        """One value; None if it does not exist."""
        return await cluster_queries.kv_value(self._servers(), namespace, key)

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """At all name servers, which share no state."""
        await cluster_queries.put_kv(self._servers(), namespace, key, value)

    async def delete_kv(self, namespace: str, key: str) -> None:
        """A key that does not exist is no error."""
        await cluster_queries.delete_kv(self._servers(), namespace, key)

    def _servers(self) -> AdminServers:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        servers = self._lifecycle.usable().tools
        return servers if self._missing is None else servers.in_part(self._missing)

    def _new_servers(self, instance: ClientInstance) -> AdminServers:
        return AdminServers(instance, self._config)
