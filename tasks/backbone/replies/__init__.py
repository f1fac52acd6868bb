"""Reading of replies: JSON or SQL, as written, fenced, in prose, or repaired."""
