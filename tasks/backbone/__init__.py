"""Backbones: the OpenAI-compatible client with its reply cache, and the two that need no network."""
