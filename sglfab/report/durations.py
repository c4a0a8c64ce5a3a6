"""Seconds and clock times in the words of a person."""

from __future__ import annotations

from datetime import datetime


def spoken(seconds: float) -> str:
    """`0.8 s`, `12 s`, `3m20s`, `1h05m`, `2d03h`: never more than two units."""
    if seconds < 0:
        return "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def time_of_day(wall_s: float) -> str:
    """The operator's local time, `10:02:13`."""
    return datetime.fromtimestamp(wall_s).strftime("%H:%M:%S")


def moment(when: object) -> str:
    """Local `2026-12-01 10:02` of a unix time; of an ISO time its minutes; "" for None."""
    if isinstance(when, int | float):
        return datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M")
    return str(when or "").replace("T", " ")[:16]
