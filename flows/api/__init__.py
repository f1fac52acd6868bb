"""The Python interface: `from crosscheck import ...`."""
