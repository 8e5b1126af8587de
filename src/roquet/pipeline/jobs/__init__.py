"""The jobs of `roquet spark`: each is a function that takes a Spark session and a plan.

What they share is outside: `session`, `queries` and `selection`.
"""
