"""The blocking twin of the admin, for programs without an event loop."""

from collections.abc import Generator, Mapping
from copy import copy
from datetime import datetime
from typing import Unpack, final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.follow import FollowFrom
from roquet.client.admin.missing import MissingBroker
from roquet.client.admin.servers import AdminOptions
from roquet.client.blocking.twin import BlockingTwin, blocking, described_by
from roquet.client.group.start_offset import StartFrom
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage


@final
@described_by(AsyncAdmin)
class Admin(BlockingTwin[AsyncAdmin]):
    """Administration of a cluster, for programs. `AsyncAdmin` is the same for asyncio.

    Topics, groups, offsets, messages, dead letters, brokers and their settings. Every
    method that asks servers raises NoNameServer, Unreachable or RequestRefused, besides the errors
    in its own description. `options` are the members of `AdminConfig`.

    For example:

        with Admin("127.0.0.1:9876") as admin:
            admin.create_topic("orders", TopicSettings(read_queue_count=8, write_queue_count=8))
            print(admin.topics(), admin.topic_statistics("orders").message_count)
            for broker in admin.brokers():
                print(broker.broker_name, broker.address)
    """

    def __init__(self, name_server: str | None = None, **options: Unpack[AdminOptions]) -> None:
        super().__init__(AsyncAdmin(name_server, **options), "admin")

    def partial(self) -> "Admin":
        view = copy(self)
        view._twin = self._twin.partial()  # noqa: SLF001  Its own.
        return view

    @property
    def missing(self) -> tuple[MissingBroker, ...]:
        """The brokers that answers in part are without; empty if they are whole."""
        return self._twin.missing

    topics = blocking(AsyncAdmin.topics)
    create_topic = blocking(AsyncAdmin.create_topic)
    set_topic_permission = blocking(AsyncAdmin.set_topic_permission)
    delete_topic = blocking(AsyncAdmin.delete_topic)
    topic_settings = blocking(AsyncAdmin.topic_settings)
    all_topic_settings = blocking(AsyncAdmin.all_topic_settings)
    topic_route = blocking(AsyncAdmin.topic_route)
    topic_statistics = blocking(AsyncAdmin.topic_statistics)
    first_stored = blocking(AsyncAdmin.first_stored)
    topic_groups = blocking(AsyncAdmin.topic_groups)
    forbid_writes = blocking(AsyncAdmin.forbid_writes)
    allow_writes = blocking(AsyncAdmin.allow_writes)
    groups = blocking(AsyncAdmin.groups)
    create_group = blocking(AsyncAdmin.create_group)
    delete_group = blocking(AsyncAdmin.delete_group)
    group_settings = blocking(AsyncAdmin.group_settings)
    all_group_settings = blocking(AsyncAdmin.all_group_settings)
    members = blocking(AsyncAdmin.members)
    producers = blocking(AsyncAdmin.producers)
    running_info = blocking(AsyncAdmin.running_info)
    running_infos = blocking(AsyncAdmin.running_infos)
    progress = blocking(AsyncAdmin.progress)
    all_progress = blocking(AsyncAdmin.all_progress)
    traffic = blocking(AsyncAdmin.traffic)
    waiting_messages = blocking(AsyncAdmin.waiting_messages)
    plan_reset = blocking(AsyncAdmin.plan_reset)
    apply_reset = blocking(AsyncAdmin.apply_reset)
    message = blocking(AsyncAdmin.message)
    messages_by_key = blocking(AsyncAdmin.messages_by_key)
    messages_between = blocking(AsyncAdmin.messages_between)
    messages_of_queue = blocking(AsyncAdmin.messages_of_queue)
    deliveries = blocking(AsyncAdmin.deliveries)
    queue_entries = blocking(AsyncAdmin.queue_entries)

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

    trace = blocking(AsyncAdmin.trace)
    dead_letter_counts = blocking(AsyncAdmin.dead_letter_counts)

    def each_dead_letter(
        self, group: str, *, begin: datetime | None = None, end: datetime | None = None
    ) -> Generator[ReceivedMessage, None, None]:
        return self._each(self._twin.each_dead_letter(group, begin=begin, end=end))

    dead_letters = blocking(AsyncAdmin.dead_letters)
    send = blocking(AsyncAdmin.send)
    resend = blocking(AsyncAdmin.resend)
    resent = blocking(AsyncAdmin.resent)
    brokers = blocking(AsyncAdmin.brokers)
    name_servers = blocking(AsyncAdmin.name_servers)
    lost_brokers = blocking(AsyncAdmin.lost_brokers)
    forget_broker = blocking(AsyncAdmin.forget_broker)
    broker_runtime = blocking(AsyncAdmin.broker_runtime)
    broker_config = blocking(AsyncAdmin.broker_config)
    update_broker_config = blocking(AsyncAdmin.update_broker_config)
    broker_tables = blocking(AsyncAdmin.broker_tables)
    replication_status = blocking(AsyncAdmin.replication_status)
    clean = blocking(AsyncAdmin.clean)
    promote_broker = blocking(AsyncAdmin.promote_broker)
    demote_broker = blocking(AsyncAdmin.demote_broker)
    broker_accounts = blocking(AsyncAdmin.broker_accounts)
    put_account = blocking(AsyncAdmin.put_account)
    delete_account = blocking(AsyncAdmin.delete_account)
    broker_users = blocking(AsyncAdmin.broker_users)
    put_user = blocking(AsyncAdmin.put_user)
    copy_user = blocking(AsyncAdmin.copy_user)
    delete_user = blocking(AsyncAdmin.delete_user)
    name_server_config = blocking(AsyncAdmin.name_server_config)
    update_name_server_config = blocking(AsyncAdmin.update_name_server_config)
    kv_table = blocking(AsyncAdmin.kv_table)
    kv_value = blocking(AsyncAdmin.kv_value)
    put_kv = blocking(AsyncAdmin.put_kv)
    delete_kv = blocking(AsyncAdmin.delete_kv)
