"""Readers of tables and arrays: Parquet, Arrow, CSV, JSON lines, Excel, databases and NumPy files."""
