"""What others see of running queries: metrics for Prometheus, and lineage.

positions.py    where a query is, by Spark's reports of its progress
metrics.py      what is counted, and the time lag
serving.py      listens to a session, and serves the pages
lineage.py      events of OpenLineage; the only module that imports its client
"""
