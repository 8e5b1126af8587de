"""Calls the hooks of a producer: around each send, and around each request that it takes."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

from roquet.client.arguments import utc
from roquet.client.callbacks import call_all
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.config import ProducerConfig
from roquet.client.errors import ClientError, NotYetSafe, SendUnknown
from roquet.client.hooks import Attempt, SendHook, Sending, SendMode
from roquet.client.producer.outgoing import Outgoing
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.errors import RoquetError


@final
class HookCalls:
    """Of one producer."""

    def __init__(
        self,
        config: ProducerConfig,
        instance: ClientInstance,
        clock: Clock,
        hooks: Sequence[SendHook],
    ) -> None:
        self._config = config
        self._instance = instance
        self._clock = clock
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def sending(self, outgoing: Outgoing) -> Iterator[Sending]:
        """Hooks see what is sent inside the block. Raises SendForbidden."""
        messages = outgoing.messages
        sending = Sending(
            self._config.group,
            outgoing.topic,
            [each.message for each in messages],
            [each.message_id for each in messages],
            messages[0].kind,
            utc(self._clock.now_ms()),
            len(outgoing.body),
        )
        call_all([hook.before_send for hook in self._hooks], sending)
        begin_s = self._loop.time()
        try:
            yield sending
        except ClientError as error:
            sending.error = error
            if isinstance(error, NotYetSafe):
                sending.receipts = error.receipts
            raise
        except asyncio.CancelledError:
            sending.error = SendUnknown(outgoing.topic, "its sender was cancelled")
            raise
        finally:
            sending.duration_s = self._loop.time() - begin_s
            if sending.receipts:
                broker_name = sending.receipts[0].queue.broker_name
                sending.broker_address = self._instance.routes.broker(broker_name).get(MASTER_ID)
            call_all([hook.after_send for hook in self._hooks], sending)

    @contextmanager
    def attempt(
        self, sending: Sending, number: int, queue: QueueRef, address: str, mode: SendMode
    ) -> Iterator[Attempt]:
        """Hooks see the request that is made inside the block. Raises SendForbidden."""
        shown_queue = queue._replace(topic=sending.topic)
        attempt = Attempt(sending, number, shown_queue, address, mode, self._config.namespace)
        call_all([hook.before_attempt for hook in self._hooks], attempt)
        begin_s = self._loop.time()
        try:
            yield attempt
        except RoquetError as error:
            attempt.error = error
            if isinstance(error, NotYetSafe):
                attempt.receipts = error.receipts
            raise
        except asyncio.CancelledError:
            attempt.error = SendUnknown(sending.topic, "its sender was cancelled")
            raise
        finally:
            attempt.duration_s = self._loop.time() - begin_s
            call_all([hook.after_attempt for hook in self._hooks], attempt)
