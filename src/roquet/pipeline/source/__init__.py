"""Format `rocketmq` for reading: queues of brokers as batches and streams.

`data_source.py` is what Spark finds; `batch.py` and `stream.py` run in the driver and say what
is read, `rows.py` runs in tasks and reads it. What is decided is pure: `positions.py`,
`admission.py`, `losses.py`.
"""
