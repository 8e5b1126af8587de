"""What two brokers of ours have in common, beyond Apache's protocol."""

import msgspec

from roquet.broker.replication.epoch_file import EpochFile


class Trust(msgspec.Struct, frozen=True):
    secret: bytes
    epochs: EpochFile
