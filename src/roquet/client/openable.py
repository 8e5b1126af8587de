"""What all clients have in common: they are opened once and closed once, best by `async with`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Openable(ABC):
    @abstractmethod
    async def open(self) -> None:
        """Begins to live."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
