"""The endpoint of a broker, in its process: methods work on what remoting handlers work on.

Imports the broker, which does not know it.
"""
