"""What becomes of messages that a listener did not take."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from roquet.client.errors import ClientError
from roquet.client.push.config import ENDLESS
from roquet.client.push.outcome import AT_ONCE_DEAD, LEVELS_S, Consequence, NotDone
from roquet.client.push.send_back import FIRST_LEVEL, SendBack
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

    def note(self, error: BaseException, messages: Messages, what_follows: str) -> None:
        """Says what happened to whoever reads logs or statistics."""
        first = messages[0]
        self._note_error(f"{first!r}: {error!r}")
        what = f"{first!r}" if len(messages) == 1 else f"{first!r} and {len(messages) - 1} more"
        if isinstance(error, NotDone):
            log.info("%s not done (%s): %s", what, error, what_follows)
        else:
            log.warning("%s failed: %s", what, what_follows, exc_info=error)

    def is_over(self, message: ReceivedMessage) -> bool:
        """Whether it was tried as often as may be."""
        return message.retry_count >= self.retry_count_max

    def later(
        self,
        messages: Messages,
        error: BaseException,
        delay_level: int,
        on_sent: Callable[[ReceivedMessage], None],
        on_kept: Callable[[Messages], None],
    ) -> None:
        """After the `error` of a listener. `on_sent` hears of each message that a broker has; the
        others come again from here, through `on_kept`."""

        async def send() -> None:
            kept = await self._sent(messages, error, delay_level, on_sent)
            if kept:
                await asyncio.sleep(_LOCAL_PAUSE_S)
                on_kept(kept)

        self._services.once("send back", send)

    def send_to_dlq(
        self, messages: Messages, error: BaseException, on_end: Callable[[Messages], None]
    ) -> None:
        """Makes dead letters of messages that failed often enough; `on_end` hears which of them
        no broker took."""

        async def send() -> None:
            on_end(await self._sent(messages, error, AT_ONCE_DEAD, lambda _message: None))

        self._services.once("send to dead letters", send)

    async def until_idle(self, timeout_s: float) -> None:
        """Waits that long for what is being sent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()

    async def _sent(
        self,
        messages: Messages,
        cause: BaseException,
        delay_level: int,
        on_sent: Callable[[ReceivedMessage], None],
    ) -> Messages:
        kept = []
        self._busy_count += 1
        self._is_idle.clear()
        try:
            for message in messages:
                try:
                    if delay_level == AT_ONCE_DEAD or self.is_over(message):
                        await self._send_back.send_to_dlq(message, cause)
                    else:
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


def next_try(message: ReceivedMessage, retry_count_max: int, consequence: Consequence) -> str:
    """What becomes of a message that a broker gives back later, for humans."""
    tries = f"of {retry_count_max + 1}"
    if consequence.is_dead or message.retry_count >= retry_count_max:
        return f"try {message.retry_count + 1} {tries} was its last, it is a dead letter now"
    level = consequence.delay_level or FIRST_LEVEL + message.retry_count
    delay_s = LEVELS_S[min(level, len(LEVELS_S)) - 1]
    return f"try {message.retry_count + 2} {tries}, again in {in_words(delay_s)}"


def next_try_in_order(message: ReceivedMessage, retry_count_max: int, pause_s: float) -> str:
    """The same where the queue rests until the message is tried again."""
    tries = "" if retry_count_max == ENDLESS else f" of {retry_count_max + 1}"
    return f"try {message.retry_count + 2}{tries}, again in {in_words(pause_s)}"


def in_words(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
