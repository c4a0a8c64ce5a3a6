"""The few flags that the stand-in looks at; all others are taken as they come."""

NAMES = {
    "--model-path": "model_path",
    "--model": "model_path",
    "--host": "host",
    "--port": "port",
    "--tp-size": "tp_size",
    "--tp": "tp_size",
    "--api-key": "api_key",
    "--served-model-name": "served_model_name",
    "--speculative-algorithm": "speculative_algorithm",
    "--speculative-draft-model-path": "speculative_draft_model_path",
    "--speculative-num-steps": "speculative_num_steps",
    "--speculative-num-draft-tokens": "speculative_num_draft_tokens",
    "--max-total-tokens": "max_total_tokens",
}
NUMBERS = {"port", "tp_size", "speculative_num_steps", "speculative_num_draft_tokens", "max_total_tokens"}
DEFAULTS = {
    "model_path": None,
    "host": "127.0.0.1",
    "port": 30000,
    "tp_size": 1,
    "api_key": None,
    "served_model_name": None,
    "speculative_algorithm": None,
    "speculative_draft_model_path": None,
    "speculative_num_steps": None,
    "speculative_num_draft_tokens": None,
    "max_total_tokens": 4096,
}


def parse(argv):
    """The flags by SGLang's own names of its ServerArgs. `--flag=value` and `--flag value` both."""
    found = dict(DEFAULTS)
    words = list(argv)
    while words:
        word = words.pop(0)
        flag, equals, value = word.partition("=")
        if flag in NAMES and (equals or words):
            value = value if equals else words.pop(0)
            found[NAMES[flag]] = int(value) if NAMES[flag] in NUMBERS else value
    found["served_model_name"] = found["served_model_name"] or found["model_path"]
    return found


def refused(argv):
    """The words that no release of SGLang takes, as its argparse would report them."""
    return [word for word in argv if word.startswith("--no-such-")]
