"""Headers of administration of a whole broker: settings, figures, exports."""

from msgspec import field

from roquet.protocol.fields import Header


class BrokerConfigReplyHeader(Header):
    version: str  # a DataVersion as JSON


class BrokerStatsHeader(Header):
    stats_name: str
    stats_key: str


class BrokerConsumeStatsHeader(Header):
    is_order: bool


class ExportConfigHeader(Header):
    config_type: str  # names, each followed by ";"


class CommitLogReadModeHeader(Header):
    read_ahead_mode: str = field(name="READ_AHEAD_MODE")
