"""Rows become messages: format `rocketmq` for writing.

    writers.py           what Spark calls, in the driver and in tasks
    columns.py           the columns of rows, checked before anything is sent
    rows.py              rows of one Arrow batch, checked and grouped by topic and queue
    requests.py          rows as the bodies of requests, and the ids of their messages
    delivery.py          sends requests, several at a time, until brokers have them

What each mode guarantees and costs is in `options/writing.py`.
"""
