"""What all commands that ask questions share: preparation, session, the runner of a question, the pool of all."""
