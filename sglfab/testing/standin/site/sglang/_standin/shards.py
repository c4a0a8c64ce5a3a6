"""Look at the shards of a checkpoint as far as SGLang's loader would: whole headers, whole data."""

import json
import os

CUT = """Traceback (most recent call last):
  File "{site}/sglang/srt/managers/scheduler.py", line 6362, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{site}/sglang/srt/model_loader/weight_utils.py", line 1354, in _load_file
    with safetensors.safe_open(st_file, framework="pt", device="cpu") as f:
         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
safetensors._safetensors_rust.SafetensorError: {error}
"""
ERROR = "Error while deserializing header: incomplete metadata, file not fully covered"


def files(folder):
    names = sorted(os.listdir(folder)) if folder and os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if name.endswith(".safetensors")]


def cut(path):
    """The file ends before its own header says."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(header_size))
        except ValueError:
            return True
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return size < 8 + header_size + max(ends, default=0)


def complaint(folder):
    """SGLang's traceback for the first cut shard, or None."""
    site = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return CUT.format(site=site, error=ERROR) if any(cut(path) for path in files(folder)) else None
