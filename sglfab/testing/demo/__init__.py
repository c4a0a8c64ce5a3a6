"""The main job, end to end, as an engineer would type it: `make demo`, or `python -m sglfab.testing.demo`."""
