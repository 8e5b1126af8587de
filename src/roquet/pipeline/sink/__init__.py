"""Rows become messages: format `rocketmq` for writing.

    writers.py           what Spark calls, in the driver and in tasks
    columns.py           which columns there are, checked before anything is sent
    rows.py              rows of one Arrow batch, checked and sorted out by topic and queue
    pieces.py            rows as the bodies of requests, and the ids of their messages
    delivering.py        sends pieces, several at a time, until brokers have them
    single_rows.py       rows that are requests of their own: delayed, or in a transaction
    transactions.py      half messages of tasks, ended by the driver
    transaction_log.py   which batches were decided, as files

What each mode promises and costs is said in `options/writing.py`.
"""
