"""One question after another: preparation, resources, the runner of one question, the pool of all."""
