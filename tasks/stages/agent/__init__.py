"""Stages and tools of the pipeline `agent`."""
