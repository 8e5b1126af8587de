"""When a failed message is tried again, and when it is given up."""

import logging
from datetime import timedelta
from typing import Any, Final, final

from roquet.client.arguments import bad
from roquet.client.errors import BadArgument
from roquet.client.middleware import Consume, ConsumeAsync, Middleware
from roquet.client.push.outcome import DeadLetter, NotDone, RetryLater, level_for
from roquet.client.received import ReceivedMessage

log: Final = logging.getLogger(__name__)


@final
class RetryPolicy(Middleware):
    """Retries a message whose listener failed after each of `delays`; then it is a dead letter.

    One that fails with an error of `fatal` is a dead letter at once, with the error as its reason.
    Where the listener raises RetryLater or DeadLetter itself, that counts. Delays are rounded up to
    levels of the broker, as `RetryLater` explains. Raises BadArgument.

    For example:

        policy = RetryPolicy(timedelta(seconds=5), timedelta(minutes=1), fatal=(ValueError,))
        consumer = PushConsumer("127.0.0.1:9876", "billing", print, middleware=[policy])
    """

    def __init__(self, *delays: timedelta, fatal: tuple[type[Exception], ...] = ()) -> None:
        for delay in delays:
            level_for(delay)
        _check_errors(fatal)
        if not delays and not fatal:
            raise BadArgument("a RetryPolicy needs `delays`, `fatal` errors, or both", "delays")
        self._delays = delays
        self._fatal = fatal

    def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:  # noqa: ARG002
        try:
            call_next(message)
        except NotDone:
            raise
        except Exception as error:
            raise self.outcome(message.retry_count, error) from error

    async def consume_async(
        self,
        message: ReceivedMessage,
        group: str,  # noqa: ARG002
        call_next: ConsumeAsync,
    ) -> None:
        try:
            await call_next(message)
        except NotDone:
            raise
        except Exception as error:
            raise self.outcome(message.retry_count, error) from error

    def outcome(self, retry_count: int, error: Exception) -> NotDone:
        """What follows from an error of the listener, after that many retries."""
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, self._fatal):
            return DeadLetter(text)
        if 0 < len(self._delays) <= retry_count:
            return DeadLetter(f"{text} (after {retry_count + 1} tries)")
        log.warning("the listener failed, to be retried", exc_info=error)
        # Without delays the policy is about fatal errors: the broker decides about others.
        return RetryLater(self._delays[retry_count] if self._delays else None)


def _check_errors(errors: Any) -> None:
    if not isinstance(errors, tuple) or not all(
        isinstance(each, type) and issubclass(each, Exception) for each in errors
    ):
        raise bad("fatal", "a tuple of error classes", errors)
