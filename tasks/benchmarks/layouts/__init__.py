"""Layouts: how the files of a benchmark are laid out and read, one module per layout."""
