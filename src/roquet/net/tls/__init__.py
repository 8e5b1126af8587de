"""Encrypted connections: their settings, certificates, handshakes, and why they fail."""
