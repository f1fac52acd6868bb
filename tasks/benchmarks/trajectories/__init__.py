"""Trajectories of agents that ran elsewhere: their file formats, read into the records of Crosscheck's own turns."""
