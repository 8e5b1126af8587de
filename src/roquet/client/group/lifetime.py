"""When a consumer has a member in its group: from `open` to `close`, and never again."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, final

from roquet.client.arguments import check_timeout
from roquet.client.errors import NotOpen
from roquet.client.group.membership import Membership


class _Living(Protocol):
    membership: Membership

    async def open(self, timeout_s: float | None) -> None: ...

    async def close(self) -> None: ...


M = TypeVar("M", bound=_Living)


@final
class Lifetime(Generic[M]):
    """`what` names the consumer in errors; `new_member` is called in its event loop."""

    def __init__(self, what: str, new_member: Callable[[], M]) -> None:
        self._what = what
        self._new_member = new_member
        self._is_closed = False
        # None before `open`.
        self.member: M | None = None

    async def open(self, timeout_s: float | None) -> None:
        """Raises NotOpen after `close`, and what the member does; it can be tried again."""
        if timeout_s is not None:
            check_timeout("timeout_s", timeout_s)
        if self._is_closed:
            raise NotOpen(self._what, was_open=True)
        if self.member is not None:
            return
        member = self.member = self._new_member()
        try:
            await member.open(timeout_s)
        except BaseException:
            self.member = None
            await member.close()
            raise

    async def close(self) -> None:
        """A second time does nothing. Raises WrongLoop."""
        if self.member is not None:
            self.member.membership.instance.check_loop()
        was_closed, self._is_closed = self._is_closed, True
        if not was_closed and self.member is not None:
            await self.member.close()

    def usable(self) -> M:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        if self.member is None or self._is_closed:
            raise NotOpen(self._what, was_open=self._is_closed)
        self.member.membership.instance.check_usable()
        return self.member
