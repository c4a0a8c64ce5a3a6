"""A small patched module of our own, with its probe and its trace."""

import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import torch

SOURCE = Path(__file__).parents[3] / "sglfab" / "patching" / "probe" / "sglfab_probe.py"
TARGET = {"tap": "target", "object": "Target.forward", "role": "target", "encloses": True, "mode": "args.batch.mode"}
LOGITS = {"tap": "logits-processor", "object": "Logits.forward", "role": "enclosing"}
DRAFT = {"tap": "draft", "object": "Draft.forward", "role": "draft", "encloses": True, "mode": "args.batch.mode"}
ABOUT = {"set": "s", "modules": ["a.py"], "max_mb": 1}

torch.set_num_threads(1)  # as the comparisons want it, and the machine has few cores


def fresh():
    """The probe as a process has it that never loaded it."""
    spec = importlib.util.spec_from_file_location("probe_under_check", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Batch:
    def __init__(self, mode="EXTEND"):
        self.mode = type("Mode", (), {"name": mode})()


class World:
    """Target, Draft and Logits, wrapped as `taps` say. Reading the trace waits for its writer."""

    def __init__(self, *taps, about=ABOUT, folder=None, module="a.py"):
        self.folder = Path(folder or tempfile.mkdtemp(dir=sys.argv[1]))
        os.environ["SGLFAB_TRACE_DIR"] = str(self.folder)
        self.probe = fresh()
        self.space = self.classes()
        self.originals = {name: vars(owner)["forward"] for name, owner in self.space.items()}
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            self.probe.install(self.space, module, about, list(taps))

    @staticmethod
    def classes():
        class Logits:
            def forward(self, hidden, scale=2):
                return hidden * scale

        class Target:
            logits = Logits()

            def forward(self, ids, batch):
                return self.logits.forward(ids), [ids, ids + 1]

        class Draft(Target):
            def forward(self, ids, batch):
                return self.logits.forward(ids)

        return {"Target": Target, "Logits": Logits, "Draft": Draft}

    def call(self, name, tensor, mode="EXTEND"):
        """One forward, and what it wrote and said."""
        with contextlib.redirect_stderr(self.said):
            result = self.space[name]().forward(tensor, batch=Batch(mode))
            self.flush()
        return result

    @property
    def trace(self):
        return self.probe.Process.probe.trace

    def flush(self):
        self.trace.flush(10)

    @property
    def files(self):
        return sorted(file.name for file in self.folder.iterdir())

    def read(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    @property
    def lines(self):
        self.flush()
        return [line for name in self.files for line in self.read(name)]

    def records(self, *names):
        return [tuple(line.get(name) for name in names) for line in self.lines if line["kind"] == "record"]


def with_tensors(tap, **paths):
    return {**tap, "tensors": [{"name": name, "path": path} for name, path in paths.items()]}
