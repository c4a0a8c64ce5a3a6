"""Write configs/profile.schema.json, for editors, from the pydantic models of profiles.

.venv/bin/python tools/profile_schema.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sglfab.profiles.schema import json_schema_text

OUT = Path(__file__).resolve().parent.parent / "configs" / "profile.schema.json"

if __name__ == "__main__":
    OUT.write_text(json_schema_text(), encoding="utf-8")
