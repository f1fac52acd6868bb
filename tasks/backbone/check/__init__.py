"""Probes of an endpoint: what it accepts, found by a few small requests."""
