"""The thread that has the kernel prepare the pages of the log that are written next.

The first byte in a page waits until the kernel has zeroed it. Read before that, many pages are
zeroed at once, off the thread that appends; they are large, and clean, so that their sync is
cheaper, too. How far it reads depends on the pace: pages that were prepared and are not written
take memory that others could use.
"""

from threading import Event, Thread
from typing import Final, final

from roquet.store.commit_log import CommitLog

_PERIOD_S: Final = 0.2
# Not for less than this in a period; the mapping fetches such pages one by one.
_GROWN_MIN: Final = 1 << 19
# For so many periods, but not for more than this.
_PERIODS: Final = 5
_AHEAD_MAX: Final = 512 << 20
_PART_SIZE: Final = 4 << 20
# What is written soon would wait for pages that are being read.
_GAP_MAX: Final = 8 << 20
_STOP_TIMEOUT_S: Final = 5.0


@final
class AheadReader:
    """`turn` is called by its own thread or, before that is started, by others."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._end = log.end
        self._read_end = 0
        self._is_stopping = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        self._end = self._log.end
        self._read_end = 0
        self._is_stopping.clear()
        self._thread = Thread(target=self._run, name="roquet-read-ahead", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._is_stopping.set()
            # On a disk that does not answer it ends with the process; the flusher reports that.
            self._thread.join(_STOP_TIMEOUT_S)
            self._thread = None

    def turn(self) -> None:
        """Read as far as will be written in the next periods, if it goes on like this."""
        end = self._log.end
        grown, self._end = end - self._end, end
        if grown < _GROWN_MIN:
            return
        first = max(self._read_end, end + min(grown // 4, _GAP_MAX))
        wanted = end + min(_PERIODS * grown, _AHEAD_MAX)
        for file in self._log.unwritten_files:
            position = max(first, file.start)
            while position < min(wanted, file.end) and not self._is_stopping.is_set():
                try:
                    file.fetch(position - file.start, _PART_SIZE)
                except OSError:
                    return  # Whoever writes there will see.
                position = min(position + _PART_SIZE, file.end)
                self._read_end = position

    def _run(self) -> None:
        while not self._is_stopping.wait(_PERIOD_S):
            self.turn()
