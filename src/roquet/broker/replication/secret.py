"""What brokers of one name share, beyond Apache's protocol: a secret, and the epochs it protects.

A module of its own because both ends of a link, and those who build a broker, need it.
"""

import msgspec

from roquet.broker.replication.epochs import EpochFile


class SharedSecret(msgspec.Struct, frozen=True):
    key: bytes
    epochs: EpochFile
