"""The properties that all messages of a batch get behind their own."""

from roquet.protocol.messages.message import Property
from roquet.protocol.messages.properties import with_property, without_property


def batch_properties(sent: str, cluster_name: str) -> bytes:
    """What is stored of those that came with the batch itself."""
    # A 5.x producer gives the batch an id of its own, which would hide the ids of its messages.
    kept = without_property(sent, Property.UNIQUE_KEY)
    return with_property(kept, Property.CLUSTER, cluster_name).encode()
