"""Files: messages as Apache keeps them on disk, written and read in both directions.

Duty: the commit log, the consume queues and the key index made from it, recovery, retention.
Doors: `message_store.MessageStore` for the one owner that writes, `offline.reading.StoreReader`
for everybody else. Imports `protocol`, `disk` and `clock`; no asyncio, no logging: what happens is
returned, raised, or told to a `StoreListener`. The one thread is the one that syncs (`flushing`).
"""
