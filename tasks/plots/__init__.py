"""Figures of runs for papers and slides, drawn by matplotlib."""
