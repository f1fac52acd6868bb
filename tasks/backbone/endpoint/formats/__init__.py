"""Wire formats: how each protocol writes a request and an answer."""
