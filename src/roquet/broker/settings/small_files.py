"""File sizes for brokers that start often and keep little: tests, demonstrations, `roquet up`.

A broker takes the space of its newest log file at once. Apache's gigabyte suits a server with a
disk of its own; sixteen megabytes are made in a blink and fit a temporary directory, too. The
largest message that is allowed by default takes a quarter of that.
"""

from typing import Final

SMALL_FILES: Final = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 6000),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}
