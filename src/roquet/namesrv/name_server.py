"""What the handlers of a name server work on."""

import msgspec

from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.kv_config import KvConfig
from roquet.namesrv.route_table import RouteTable


class NameServer(msgspec.Struct):
    config: NameServerConfig
    routes: RouteTable
    kv_config: KvConfig
