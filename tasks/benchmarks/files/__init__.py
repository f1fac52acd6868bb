"""Files of benchmarks: JSON and Parquet rows, schemas, column descriptions, CREATE TABLE scripts."""
