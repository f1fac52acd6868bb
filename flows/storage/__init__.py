"""The commands `status` and `clean`: what the working folder holds, and how it stays small."""
