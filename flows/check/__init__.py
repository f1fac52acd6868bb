"""`crosscheck check`: what an endpoint can do, and the settings that follow."""
