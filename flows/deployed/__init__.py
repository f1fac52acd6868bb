"""What deployed flows share: their forms, and how they run inside of a worker."""
