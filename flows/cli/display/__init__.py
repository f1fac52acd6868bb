"""What commands print and write of questions, golds and sweeps."""
