"""A live cluster of ours and a producer of it, for what belongs to an event loop."""

from tests.unit.client.conftest import cluster, producer

__all__ = ["cluster", "producer"]
