"""Sandboxed execution: worker processes that run model-written SQL read-only, with limits."""
