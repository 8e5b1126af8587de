"""SQL over topics, store directories and lakes by DuckDB: what `roquet sql` runs, without Spark.

`tables` has what can be queried, `query` runs a statement. Only `query` imports duckdb.
"""
