"""How much time and memory one peer may take."""

from typing import Final

import msgspec

from roquet.protocol.frame import FRAME_SIZE_MAX, HEADER_SIZE_MAX


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    frame_size_max: int = FRAME_SIZE_MAX
    header_size_max: int = HEADER_SIZE_MAX
    # A frame that has begun must end; one byte a second holds memory forever.
    frame_timeout_s: float = 10.0
    # From the first byte of a TLS handshake to its end.
    handshake_timeout_s: float = 10.0
    idle_timeout_s: float = 120.0
    # Above this many unread bytes we answer no more requests, below a quarter of it we go on.
    unread_size_high: int = 1024 * 1024
    # Longer than this above the mark, or ever above the maximum, and the peer is cut off.
    unread_timeout_s: float = 30.0
    unread_size_max: int = 64 * 1024 * 1024
    # Requests of the peer that wait for something: one pull per queue is normal.
    parked_count_max: int = 16_384
    # Our own calls to the peer that are not answered yet.
    call_count_max: int = 65_536
    # A call that waited this long or longer, with nothing heard meanwhile: nobody is there.
    silence_timeout_s: float = 2.0


DEFAULT_LIMITS: Final = ConnectionLimits()
