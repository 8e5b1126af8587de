"""The metrics of a broker, for /metrics, and whether it is ready.

Names and labels are those of Apache 5.x where it has them, and start with rocketmq_; our own
start with roquet_. Everything is read at a scrape, from counters that exist anyway.
"""
