"""What the handlers of a name server work on."""

import msgspec

from roquet.access.guard import AccessGuard
from roquet.clock import Clock
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.kv_config import KvConfig
from roquet.namesrv.route_table import RouteTable
from roquet.namesrv.saving import Saving
from roquet.net.limits import ConnectionBudget
from roquet.net.tls.contexts import ServerTls
from roquet.settings.changes import ChangedSettings
from roquet.throttled_log import ThrottledLog


class NameServer(msgspec.Struct):
    config: NameServerConfig
    clock: Clock
    routes: RouteTable
    kv_config: KvConfig
    changed_settings: ChangedSettings
    settings_saving: Saving
    tls: ServerTls
    connection_budget: ConnectionBudget
    # Warnings about misconfigured brokers.
    warnings: ThrottledLog
    # None without access control.
    guard: AccessGuard | None = None
