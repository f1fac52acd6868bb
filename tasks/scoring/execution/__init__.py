"""Execution accuracy and what else is measured by executing SQL."""
