"""Preparation, session, question runner and pool, shared by all commands that ask questions."""
