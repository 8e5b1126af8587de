"""The data pipeline on Spark: topics and store directories as DataFrames, and DataFrames as topics.

Duty: the formats `rocketmq` (batch and stream, read and write) and `rocketmq-store`, the lake,
and the jobs of `roquet spark`. Everything Spark-specific is here; what reads and writes messages
is the client, the offline store and the record columns.
Doors: imports `client`, `store.offline` and `protocol`; this room alone imports pyspark. Only the
command line imports this room.
"""
