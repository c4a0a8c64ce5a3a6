"""SGLang's general plugins, as 0.5.11 to 0.5.23 load them: by entry point, and none that fails ends the process."""

import os
import traceback
from importlib.metadata import entry_points

GENERAL_PLUGINS_GROUP = "sglang.srt.plugins"


def load_plugins():
    allowed = {name for name in os.environ.get("SGLANG_PLUGINS", "").split(",") if name}
    for entry in entry_points(group=GENERAL_PLUGINS_GROUP):
        if not allowed or entry.name in allowed:
            try:
                entry.load()()
            except Exception:
                traceback.print_exc()
