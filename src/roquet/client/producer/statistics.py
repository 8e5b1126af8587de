"""What a producer did so far, for whoever asks."""

from dataclasses import dataclass

from roquet.client.errors import ClientError, SendUnknown


@dataclass(slots=True)
class ProducerStatistics:
    """Counts of messages since the producer was made."""

    stored_count: int = 0
    stored_size: int = 0  # of bodies, as they were sent
    failed_count: int = 0
    unknown_count: int = 0
    oneway_count: int = 0
    # Requests beyond the first of a message or batch.
    retry_count: int = 0
    # Sends on their way now, a batch counting as one, and those that wait for room.
    in_flight_count: int = 0
    waiting_count: int = 0
    last_error: str | None = None

    def note_error(self, error: ClientError, count: int) -> None:
        if isinstance(error, SendUnknown):
            self.unknown_count += count
        else:
            self.failed_count += count
        self.last_error = str(error)
