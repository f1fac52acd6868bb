"""A run as one file that can be handed over: what is in it, without names of the machine that it comes from."""
