"""Files: messages in Apache's format on disk, readable and writable by both.

Duty: the commit log, the consume queues and the key index built from it, recovery, retention.
Entry points: `message_store.MessageStore` for the one owner that writes, and for all other readers
`offline.reader.StoreReader`. Imports `protocol`, `disk` and `clock`; no asyncio, no logging: the
results are returned, raised, or passed to a `StoreListener`. The only thread is the one that syncs
(`flushing`).
"""
