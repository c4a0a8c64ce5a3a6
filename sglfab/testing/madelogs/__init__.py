"""Logs made from plots: a healthy start of a release, then the lines of one trouble, through one collector.

A plot (tests/cases/made/*.yaml) holds what is peculiar to a case and its labels; everything else is composed here.
Message templates are facts of the released packages; hosts, sizes, times and line numbers are invented.
"""
