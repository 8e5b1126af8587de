"""Monitoring: HTTP pages for Prometheus and for probes.

A server decides what it measures and hands in a `MonitoredServer`. Loaded only where an HTTP port
is configured, so that other servers start as quickly as without it.
"""
