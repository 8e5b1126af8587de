"""Sizes of files for brokers that keep little, ours and Apache's."""

SMALL_FILES = {
    # The largest message allowed by default still fits a file.
    "mappedFileSizeCommitLog": str(8 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}
