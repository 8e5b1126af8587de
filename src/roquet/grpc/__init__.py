"""The gRPC endpoint of a broker: what SDKs of RocketMQ 5.x talk to.

Duty: HTTP/2 and gRPC on one port, the methods of apache.rocketmq.v2.MessagingService, and the
clients behind them. Methods work on the parts of the broker that remoting handlers work on; nothing
is written down twice. Interface: `load_endpoint`, for those who have a port for it: a broker
without one does not pay for it. Imports the broker, which does not know it.

    http2 connection calls    frames by nghttp2; limits of a peer; one call
    schema codes message_form messages of the service; their numbers; stored messages in its terms
    methods                   which call goes where; refusals
    routing sending receiving acking telemetry   the methods
    clients questions         who is connected; what operators ask of them
    signatures                which account may do what
    server                    the port
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from roquet.grpc.errors import GrpcMissing

if TYPE_CHECKING:
    from roquet.broker.broker import Broker
    from roquet.clock import Clock
    from roquet.protocol.host import Address

    ServeGrpc = Callable[
        [Address, Broker, Callable[[], Broker | None], Clock], AbstractAsyncContextManager[int]
    ]


def load_endpoint() -> "ServeGrpc":
    """`serve_grpc`. Raises GrpcMissing."""
    try:
        import roquet.grpc.http2  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise GrpcMissing(
            "nghttp2, which was not there when Roquet was compiled",
            "install its header (on Debian: apt-get install libnghttp2-dev), and then Roquet again:"
            " pip install --force-reinstall --no-binary roquet 'roquet[grpc]'",
        ) from None
    except ImportError as error:
        remedy = "install it (on Debian: apt-get install libnghttp2-14)"
        raise GrpcMissing(f"the library nghttp2 ({error})", remedy) from None
    try:
        from roquet.grpc.in_broker.server import serve_grpc  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise GrpcMissing(str(error.name), "pip install 'roquet[grpc]'") from None
    return serve_grpc
