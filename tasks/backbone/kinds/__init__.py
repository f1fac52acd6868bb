"""Kinds of backbones by name, and how one is opened for a run."""
