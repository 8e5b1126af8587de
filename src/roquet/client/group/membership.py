"""One member of a consumer group, whatever it does with the messages of its queues."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance, InstanceName
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.pulling import Puller
from roquet.client.errors import NothingToRead
from roquet.client.group.config import MemberConfig
from roquet.client.group.offsets import BrokerOffsets, FileOffsets, OffsetKeeper, OffsetStore
from roquet.client.group.pull_loop import PullContext
from roquet.client.group.readiness import EVERYTHING, Readiness, no_topic
from roquet.client.group.rebalance import QueueOwner, Rebalance
from roquet.client.group.start_offset import start_offset
from roquet.client.group.subscriptions import (
    Registration,
    Subscriptions,
    check_subscriptions,
    heartbeat_of,
)
from roquet.client.names import wrapped
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.router import Router
from roquet.net.service import OnFailure
from roquet.protocol.bodies.clients import ConsumeType
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts

log = logging.getLogger(__name__)

# Broadcasting members must find their offsets again.
_STABLE_NAME: Final = "DEFAULT"
_OFFSETS_DIRECTORY: Final = ".rocketmq_offsets"
# How long `join` waits for the first queues.
_START_TIMEOUT_S: Final = 3.0
_LEAVE_TIMEOUT_S: Final = 5.0
# Before a consumer without a topic is logged.
_REMIND_S: Final = 1.0
_WHATS: Final = {ConsumeType.PUSH: "push consumer", ConsumeType.PULL: "pull consumer"}


def is_asked(group: str, command: Command) -> bool:
    """Whether a request of a broker is for this group, of those that share a client id."""
    fields = field_texts(command.fields)
    return group in (fields.get("consumerGroup"), fields.get("group"))


@final
class Membership:
    """Made inside a running event loop; no I/O before `open`.

    `router` answers the requests of brokers.
    """

    def __init__(
        self,
        config: MemberConfig,
        consume_type: ConsumeType,
        subscriptions: Subscriptions,
        clock: Clock,
        router: Router[Any],
    ) -> None:
        self.config = config
        self.consume_type = consume_type
        self.subscriptions = subscriptions
        self.clock = clock
        self.begin_ms = clock.now_ms()
        self.group = wrapped(config.namespace, config.group)
        self.readiness = Readiness(
            f"the {_WHATS[consume_type]} of group {config.group}", clock.monotonic_s
        )
        name = config.instance_name or (_STABLE_NAME if config.broadcasting else None)
        self.instance = instance = ClientInstance(
            Participant(
                _WHATS[consume_type],
                partial(heartbeat_of, config, consume_type, self.group, subscriptions),
                router,
                partial(is_asked, self.group),
                is_consumer=True,
            ),
            LinkSettings(
                name_server_source(config.name_server, config.unit),
                config.credentials,
                config.tls,
                config.route_interval_s,
                config.heartbeat_interval_s,
            ),
            clock,
            InstanceName(name, config.unit, is_shared=config.instance_name is not None),
        )
        self.brokers = Brokers(instance.requests, instance.routes, asks_slaves=True)
        self.puller = Puller(
            instance.requests,
            instance.routes,
            self.group,
            config.namespace,
            message_filter=config.message_filter,
        )
        self.keeper = OffsetKeeper(self._new_store())
        self.registration = Registration(instance, subscriptions, clock)
        self.rebalance = Rebalance(
            self.brokers,
            instance.routes,
            (self.group, instance.id),
            None if config.broadcasting else config.allocation,
            self.readiness,
            on_unknown=instance.beat_soon,
        )
        self.pull_context = PullContext(
            self.puller.pull,
            instance.routes.renew_soon,
            instance.services,
            clock,
            config.error_pause_s,
            self.registration.subscription_of,
            instance.beat_soon,
            self.note_error,
        )
        # From `join` on.
        self._owner: QueueOwner | None = None
        self._balancing: asyncio.Task[None] | None = None

    def note_error(self, text: str) -> None:
        """Sets the last error, which programs can read."""
        self.readiness.last_error = text

    @property
    def last_error(self) -> str | None:
        return self.readiness.last_error

    def start_of(
        self, queue: QueueRef, siblings: Sequence[QueueRef]
    ) -> Callable[[], Awaitable[int]]:
        """Finds the offset to start a queue at; `siblings` are all queues of its topic."""
        return partial(
            start_offset,
            self.brokers,
            self.keeper,
            queue,
            self.config.start_from,
            siblings if self.config.new_queues_from_first else (),
            now_ms=self.clock.now_ms(),
            is_new_topic=queue.topic in self.rebalance.missing,
        )

    # From `open` to `leave`.

    async def open(self) -> None:
        """Connects. Raises BadStateFile, and RequestRefused when a broker does not support the
        filter of a subscription."""
        if isinstance(self.keeper.store, FileOffsets):
            await asyncio.to_thread(self.keeper.store.load)
        await self.instance.open()
        await check_subscriptions(
            self.brokers,
            self.instance.routes,
            (self.group, self.instance.id),
            self.subscriptions.by_topic.values(),
        )

    async def join(self, owner: QueueOwner, timeout_s: float | None, *, has_topics: bool) -> None:
        """Gives `owner` its share from now on; returns when it has started, or after a while.

        With a timeout it raises what keeps it from consuming; without `has_topics`, NothingToRead.
        """
        self._owner = owner
        services = self.instance.services
        if not has_topics:
            self.readiness.report(EVERYTHING, no_topic(), is_logged=False)
            services.once("remind of topics", self._remind_of_topics)
        services.every("save offsets", self.config.commit_interval_s, owner.save)
        self._balancing = services.run(
            "balance", partial(self._balance, owner), on_failure=OnFailure.RESTART
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s or _START_TIMEOUT_S):
                await self.rebalance.has_started.wait()
                if timeout_s is not None:
                    await self.rebalance.has_all.wait()
                await owner.until_started()
            if timeout_s is None or has_topics:
                return
        if timeout_s is not None:
            raise self.readiness.first or NothingToRead(
                f"no queues were assigned within {timeout_s:g} s: {self.last_error}"
            )

    def change(self) -> None:
        """The subscriptions or assigned queues changed."""
        self.readiness.clear(EVERYTHING)
        self.instance.services.once("change", self._change)

    def stop_balancing(self) -> None:
        """Its share stays as it is from now on."""
        if self._balancing is not None:
            self._balancing.cancel()

    async def leave(self, leave_queues: Callable[[], Awaitable[None]]) -> None:
        """Releases its queues, within a limited time."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await leave_queues()
        except TimeoutError:
            log.warning(
                "group %s: brokers did not confirm its last offsets within %g s; what was consumed"
                " after the last commit may be delivered again",
                self.group,
                _LEAVE_TIMEOUT_S,
            )

    def forget(self, queue: QueueRef) -> None:
        """Another member reads the queue now."""
        self.keeper.forget(queue)
        self.puller.forget(queue)

    async def _remind_of_topics(self) -> None:
        """Not at once: `subscribe` may be the next line of the program."""
        await asyncio.sleep(_REMIND_S)
        if self.readiness.is_reported(EVERYTHING):
            self.readiness.report(EVERYTHING, no_topic())

    async def _balance(self, owner: QueueOwner) -> None:
        await self._register()
        await self.rebalance.keep_balanced(owner, self.config.balance_interval_s)

    async def _change(self) -> None:
        await self._register()
        self.rebalance.wake()

    async def _register(self) -> None:
        await self.registration.send_heartbeat()
        if self._owner is not None:
            await self._owner.registered()

    def _new_store(self) -> OffsetStore:
        if self.config.offset_store is not None:
            return self.config.offset_store
        if not self.config.broadcasting:
            return BrokerOffsets(self.brokers, self.group)
        directory = self.config.offsets_directory or Path.home() / _OFFSETS_DIRECTORY
        return FileOffsets(Path(directory) / self.instance.id / self.group)
