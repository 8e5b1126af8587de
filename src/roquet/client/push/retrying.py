"""What becomes of messages that a listener did not take."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from roquet.client.errors import ClientError
from roquet.client.push.outcome import AT_ONCE_DEAD, NotDone
from roquet.client.push.send_back import SendBack
from roquet.client.received import ReceivedMessage
from roquet.net.service import Services

log = logging.getLogger(__name__)

# Before a message is delivered again by this consumer, when no broker took it back.
_LOCAL_PAUSE_S: Final = 5.0

Messages = list[ReceivedMessage]


@final
class Retries:
    """Sends messages back, in the background, until they are where they have to be."""

    def __init__(
        self,
        send_back: SendBack,
        retry_count_max: int,
        services: Services,
        note_error: Callable[[str], None],
    ) -> None:
        self._send_back = send_back
        self._services = services
        self._note_error = note_error
        self.retry_count_max = retry_count_max
        self._busy_count = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def note(self, error: BaseException, messages: Messages) -> None:
        """Says what happened to whoever reads logs or statistics."""
        first = messages[0]
        self._note_error(f"{first!r}: {error!r}")
        if isinstance(error, NotDone):
            log.info("%r and the rest of %d not done: %s", first, len(messages), error)
        else:
            log.warning("%r and the rest of %d failed", first, len(messages), exc_info=error)

    def later(
        self,
        messages: Messages,
        delay_level: int,
        on_sent: Callable[[ReceivedMessage], None],
        on_kept: Callable[[Messages], None],
    ) -> None:
        """`on_sent` hears of each that a broker has; the others come again from here, through
        `on_kept`."""

        async def send() -> None:
            kept = await self._sent(messages, delay_level, on_sent)
            if kept:
                await asyncio.sleep(_LOCAL_PAUSE_S)
                on_kept(kept)

        self._services.once("send back", send)

    def bury(self, messages: Messages, on_end: Callable[[Messages], None]) -> None:
        """Makes dead letters of messages that failed often enough; `on_end` hears which of them
        no broker took."""

        async def send() -> None:
            on_end(await self._sent(messages, AT_ONCE_DEAD, lambda _message: None))

        self._services.once("send to dead letters", send)

    async def until_idle(self, timeout_s: float) -> None:
        """Waits that long for what is being sent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()

    async def _sent(
        self,
        messages: Messages,
        delay_level: int,
        on_sent: Callable[[ReceivedMessage], None],
    ) -> Messages:
        kept = []
        self._busy_count += 1
        self._is_idle.clear()
        try:
            for message in messages:
                try:
                    await self._send_back.send_back(message, delay_level, self.retry_count_max)
                except ClientError as error:
                    log.warning("%r is not sent back: %s", message, error)
                    message.local_retry_count += 1
                    kept.append(message)
                else:
                    on_sent(message)
        finally:
            self._busy_count -= 1
            if not self._busy_count:
                self._is_idle.set()
        return kept
