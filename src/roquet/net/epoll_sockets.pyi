import asyncio
import socket

class Poller:
    def __init__(self, epoll: int) -> None: ...
    def close(self) -> None: ...
    def wake(self) -> None: ...
    def wait(self, timeout_ms: int) -> list[tuple[int, int]]: ...

class SocketTransport(asyncio.Transport):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        poller: Poller,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None,
    ) -> None: ...
