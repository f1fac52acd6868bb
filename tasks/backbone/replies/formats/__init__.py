"""The built-in reply formats, one module each."""
