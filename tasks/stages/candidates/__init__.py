"""Stages that select one of several candidates, for every pipeline."""
