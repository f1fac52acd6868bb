"""Requests in batches, which are answered within a day for half the price."""
