"""Format `rocketmq` for reading: queues of brokers as batches and streams.

`batch.py` and `stream.py` plan in the driver what tasks read; `positions.py` resolves options to
offsets, `queue_states.py` finds lost messages. `lake_staging.py` is the stream of `ingest`.
"""
