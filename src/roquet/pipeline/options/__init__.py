"""Options of the formats: each declared once, with its name, its kind, its default and its meaning.

From these declarations options are parsed, rejected by name, and documented in docs/spark.md.
"""
