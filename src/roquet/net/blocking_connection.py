"""A socket whose calls block the thread that makes them, one at a time, without an event loop.

For a thread that waits for each answer: the way to the thread of an event loop and back would take
longer than the answer. The frames are those of `connection.py`, and so are the errors.
"""

import select
import socket
import time
from collections.abc import Callable
from itertools import count
from typing import Final, final

from roquet.net.errors import CallTimedOut, ConnectFailed, ConnectionLost
from roquet.net.limits import DEFAULT_LIMITS
from roquet.protocol.codes import CommandFlag
from roquet.protocol.command import Command, decode_command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.host import Address

_RECEIVED_SIZE_MAX: Final = 1 << 16
_OPAQUE_MASK: Final = 0x7FFF_FFFF
# Setting the timeout of a socket is a system call: a difference that small is not worth one.
_TIMEOUT_STEP_S: Final = 0.01
# Without any, a socket would not block.
_TIMEOUT_S_MIN: Final = 0.001
_BY_PEER: Final = "closed by the peer"


@final
class BlockingConnection:
    """Belongs to the thread that uses it. A call that fails closes it, however it fails: an answer
    that comes late must not be taken for that of the next call."""

    __slots__ = ("_frames", "_opaques", "_poll", "_socket", "_timeout_s", "address")

    def __init__(self, address: str, place: Address, timeout_s: float) -> None:
        """`address` is the name for errors, `place` where it is. Raises ConnectFailed."""
        self.address = address
        try:
            self._socket = socket.create_connection((place.ip, place.port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise ConnectFailed(address, str(error) or type(error).__name__) from None
        self._timeout_s = timeout_s
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._frames = FrameDecoder(DEFAULT_LIMITS.frame_size_max, DEFAULT_LIMITS.header_size_max)
        self._opaques = count()

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to read. A peer that closed it, or sends what was not asked for,
        gets no call."""
        return not self._poll.poll(0)

    def call_by(self, code: int, frame_of: Callable[[int], bytes], timeout_s: float) -> Command:
        """The response to the request that `frame_of` makes for an opaque.

        Raises CallTimedOut or ConnectionLost.
        """
        deadline_s = time.monotonic() + timeout_s
        opaque = next(self._opaques) & _OPAQUE_MASK
        try:
            self._limit_wait(timeout_s)
            self._socket.sendall(frame_of(opaque))
            return self._response(opaque, deadline_s)
        except TimeoutError:
            self.close()
            raise CallTimedOut(self.address, code, timeout_s) from None
        except (OSError, ProtocolError) as error:
            self.close()
            raise ConnectionLost(self.address, str(error) or type(error).__name__) from None
        except BaseException:
            # Such as Ctrl-C in the thread that waits.
            self.close()
            raise

    def shut_down(self) -> None:
        """By any thread: a call that waits fails."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # It is closed already.

    def close(self) -> None:
        """A second time does nothing."""
        self._socket.close()

    def _response(self, opaque: int, deadline_s: float) -> Command:
        """Raises TimeoutError, OSError or ProtocolError."""
        while True:
            self._limit_wait(deadline_s - time.monotonic())
            data = self._socket.recv(_RECEIVED_SIZE_MAX)
            if not data:
                raise ConnectionResetError(_BY_PEER)
            for frame in self._frames.cut(data):
                command = decode_command(frame)
                if command.flag & CommandFlag.RESPONSE and command.opaque == opaque:
                    return command

    def _limit_wait(self, timeout_s: float) -> None:
        if not -_TIMEOUT_STEP_S < timeout_s - self._timeout_s < _TIMEOUT_STEP_S:
            self._timeout_s = max(timeout_s, _TIMEOUT_S_MIN)
            self._socket.settimeout(self._timeout_s)
