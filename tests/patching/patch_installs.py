"""A small install that has what the patch set wants, and a host that is this process."""

import base64
import hashlib
import threading
from pathlib import Path

from sglfab.errors import from_json
from sglfab.flows.identity import Operator
from sglfab.hostside import patch_files
from sglfab.hostside.failure import HostError

ROOT = Path(__file__).parents[2]
SET = "eagle3-hidden-states"
OPERATOR = Operator("ada", "lovelace")

SOURCES = {
    "srt/models/deepseek_v2.py": """\
# naïve: non-ASCII from 0.5.11 on
class DeepseekV2Model:
    def forward(self, input_ids, positions, forward_batch):
        return input_ids


class DeepseekV2ForCausalLM:
    def forward(self, input_ids, positions, forward_batch):
        return self.model.forward(input_ids, positions, forward_batch)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.layers = layer_ids


EntryClass = [DeepseekV2ForCausalLM]
""",
    "srt/models/llama_eagle3.py": """\
class LlamaForCausalLM:
    def forward(self, input_ids, positions, forward_batch):
        return input_ids


class LlamaModel:
    def forward(self, input_ids, positions, forward_batch):
        return input_ids


class LlamaForCausalLMEagle3(LlamaForCausalLM):
    def load_weights(self, weights):
        pass


EntryClass = [LlamaForCausalLMEagle3]
""",
    "srt/layers/logits_processor.py": """\
class LogitsProcessor:
    def forward(self, input_ids, hidden_states, lm_head, logits_metadata, aux_hidden_states=None):
        return hidden_states
""",
}

# A small load_plugins of SGLang's kind, and where its schedulers call it.
PLUGIN_SOURCES = {
    "srt/plugins/__init__.py": """\
from importlib.metadata import entry_points

GENERAL_PLUGINS_GROUP = "sglang.srt.plugins"


def load_plugins():
    for entry in entry_points(group=GENERAL_PLUGINS_GROUP):
        entry.load()()
""",
    "srt/managers/scheduler.py": """\
from sglang.srt.plugins import load_plugins


def run_scheduler_process(then):
    load_plugins()
    then()
""",
}


KIMI_FILE = "srt/models/kimi_k25_eagle3.py"
KIMI_DRAFT = "Eagle3DeepseekV2ForCausalLM"
KIMI = {
    KIMI_FILE: """\
class Eagle3MLAModel:
    def forward(self, input_ids, positions, forward_batch):
        return input_ids


class Eagle3DeepseekV2ForCausalLM:
    def forward(self, input_ids, positions, forward_batch):
        return input_ids

    def load_weights(self, weights):
        pass


EntryClass = [Eagle3DeepseekV2ForCausalLM]
"""
}


class Installed:
    """A site-packages folder with an sglang of our own making, its RECORD included."""

    def __init__(self, root, *, release="0.5.23", distribution="sglang", more=None):
        """more: further files, path → text."""
        self.root = root
        self.originals = {path: text.encode() for path, text in (SOURCES | (more or {})).items()}
        self.info = root / f"{distribution}-{release}.dist-info"
        for path, data in self.originals.items():
            self.path(path).parent.mkdir(parents=True, exist_ok=True)
            self.path(path).write_bytes(data)
        (root / "sglang" / "version.py").write_text(f'__version__ = "{release}"\n')
        self.info.mkdir()
        self.record()

    def load_plugins(self):
        """What makes it a release whose schedulers load plugins."""
        for path, text in PLUGIN_SOURCES.items():
            self.path(path).parent.mkdir(parents=True, exist_ok=True)
            self.path(path).write_text(text)

    def path(self, relative):
        return self.root / "sglang" / relative

    def record(self):
        """RECORD for the files as they are now, as an installer writes it."""
        self.originals = {path: self.path(path).read_bytes() for path in self.originals}
        self.info.joinpath("RECORD").write_text("".join(map(record_line, self.originals, self.originals.values())))

    def contents(self):
        return {path: self.path(path).read_bytes() for path in self.originals}

    @property
    def pristine(self):
        return self.contents() == self.originals

    def leftovers(self):
        return sorted(path.name for path in self.root.rglob("*.sglfab-staged"))


def record_line(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sglang/{path},sha256={digest},{len(data)}\n"


class HereHost:
    """A host whose operations run in this process: for tests that need many, or that end them half way."""

    label = "here"

    def __init__(self, state_dir):
        self.state_dir = str(state_dir)

    def call(self, op, request, *, timeout_s=60.0):
        operation = {"patch-read": patch_files.patch_read, "patch-write": patch_files.patch_write}[op]
        try:
            return operation({**request, "op": op, "state_dir": self.state_dir}, lambda event: None, threading.Event())
        except HostError as error:
            raise from_json(error.to_json()) from None
