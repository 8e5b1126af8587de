"""Format `rocketmq-store`: the directories of brokers as DataFrames, without the brokers.

`batch.py` runs in the driver, takes a snapshot of the store and splits it among tasks; `rows.py`
runs in tasks and reads a split; `row_filter.py` decides which records are rows. `lake_staging.py`
is for `backfill`.
"""
