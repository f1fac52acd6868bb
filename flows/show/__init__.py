"""`crosscheck show`: a run, and one question of it with everything that is stored."""
