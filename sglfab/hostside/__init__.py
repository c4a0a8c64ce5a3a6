"""The program that runs on the host: stdlib only, Python 3.8 or newer, sent as one file, one process per operation."""
