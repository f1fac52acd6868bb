"""Files of other systems: predictions, schema links, released outputs."""
