"""The life of a client that only asks: from `open` to `close`, and never again."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, final

from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.tls import TlsConfig
from roquet.client.config import Credentials
from roquet.client.errors import NotOpen
from roquet.clock import SystemClock
from roquet.protocol.bodies.clients import Heartbeat

T = TypeVar("T")


class _VisitorConfig(Protocol):
    @property
    def name_server(self) -> str | None: ...
    @property
    def credentials(self) -> Credentials | None: ...
    @property
    def tls(self) -> TlsConfig | bool: ...


@final
class Visit(Generic[T]):
    """`what` names the client in errors; `new_tools` makes what it asks with, in its event loop."""

    def __init__(
        self, what: str, config: _VisitorConfig, new_tools: Callable[[ClientInstance], T]
    ) -> None:
        self._what = what
        self._config = config
        self._new_tools = new_tools
        self._open: tuple[ClientInstance, T] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Nobody is asked yet. Raises NotOpen after `close`."""
        if self._is_closed:
            raise NotOpen(self._what, was_open=True)
        if self._open is not None:
            return
        config = self._config
        instance = ClientInstance(
            # With nothing in it, a heartbeat is not sent.
            Participant(self._what, lambda client_id: Heartbeat(client_id=client_id)),
            LinkSettings(name_server_source(config.name_server), config.credentials, config.tls),
            SystemClock(),
        )
        self._open = instance, self._new_tools(instance)
        await instance.open()

    async def close(self) -> None:
        """A second time does nothing. Raises WrongLoop."""
        if self._open is not None:
            self._open[0].check_loop()
        was_closed, self._is_closed = self._is_closed, True
        if not was_closed and self._open is not None:
            await self._open[0].close()

    def usable(self) -> T:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        if self._open is None or self._is_closed:
            raise NotOpen(self._what, was_open=self._is_closed)
        instance, tools = self._open
        instance.check_usable()
        return tools
