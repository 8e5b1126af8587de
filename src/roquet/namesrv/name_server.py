"""What the handlers of a name server work on."""

import msgspec

from roquet.access.guard import AccessGuard
from roquet.clock import Clock
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.kv_config import KvConfig
from roquet.namesrv.route_table import RouteTable
from roquet.namesrv.saving import Saving
from roquet.net.complaints import Complaints
from roquet.net.crowd import Crowd
from roquet.net.tls.contexts import ServerTls
from roquet.settings.changes import ChangedSettings


class NameServer(msgspec.Struct):
    config: NameServerConfig
    clock: Clock
    routes: RouteTable
    kv_config: KvConfig
    changed_settings: ChangedSettings
    settings_saving: Saving
    tls: ServerTls
    # Everybody who is connected.
    crowd: Crowd
    # None without access control.
    guard: AccessGuard | None = None
    # About brokers that are set up wrongly.
    warnings: Complaints = msgspec.field(default_factory=Complaints)
