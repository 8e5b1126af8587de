"""Format `rocketmq-store`: the directories of brokers as DataFrames, without the brokers.

`data_source.py` is what Spark finds; `batch.py` and `finding.py` run in the driver, look at the
store once and say which task reads what; `rows.py` runs in tasks and reads it. What is decided
is pure: `keeping.py` knows which records are rows, `portions.py` how many go together.
"""
