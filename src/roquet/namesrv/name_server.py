"""What the handlers of a name server work on."""

from dataclasses import dataclass

from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.kv_config import KvConfig
from roquet.namesrv.route_table import RouteTable


@dataclass(slots=True)
class NameServer:
    config: NameServerConfig
    routes: RouteTable
    kv_config: KvConfig
