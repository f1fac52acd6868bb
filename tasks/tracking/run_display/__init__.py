"""How a run is shown: its first screen, its full document, and what is wrong with it."""
