"""The stand-in's launcher: `python -m sglang.launch_server`, SGLang's main process."""

import errno
import importlib
import os
import signal
import sys
import threading
import time

from sglang._standin import arguments, script, web
from sglang._standin.family import Family
from sglang._standin.script import raw, say
from sglang.srt.plugins import load_plugins
from sglang.version import __version__


def fail(text, code=1):
    raw(text.rstrip("\n") + "\n")
    sys.exit(code)


def parse(argv):
    refused = arguments.refused(argv)
    if refused:
        raw("usage: launch_server.py [-h] [--model-path MODEL_PATH]\n")
        fail(f"launch_server.py: error: unrecognized arguments: {' '.join(refused)}", 2)
    if "--model-path" not in " ".join(argv) and "--model" not in argv:
        fail("launch_server.py: error: the following arguments are required: --model-path/--model", 2)
    return arguments.parse(argv)


def open_port(args, behaviour, family):
    """Bind as uvicorn does: only after everything is loaded. On a busy port SGLang then hangs, even after SIGTERM."""
    try:
        return web.Server(args, behaviour, family, __version__)
    except OSError as why:
        if why.errno != errno.EADDRINUSE:
            raise
        where = (args["host"], args["port"])
        say(f"ERROR:    [Errno 98] error while attempting to bind on address {where}: address already in use")
        say("INFO:     Waiting for application shutdown.")
        if behaviour["busy_port"] == "exit":
            family.end_children()
            sys.exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(3600)


def drain_on_sigterm(behaviour, family):
    def on_sigterm(signum, frame):
        say(f"SIGTERM received. {signum=} {frame=}. Draining requests and shutting down...")
        if behaviour["ignore_sigterm"]:
            return
        time.sleep(behaviour["drain_s"])
        family.end_children()
        os._exit(0)

    signal.signal(signal.SIGTERM, on_sigterm)


def serve(args, behaviour, family):
    behaviour.enter("http", "main", fail)
    say("Engine startup timings (s): load_weight=0.13, kv_cache_allocation=0.79, scheduler_e2e=3.41")
    say(f"INFO:     Started server process [{os.getpid()}]")
    say("INFO:     Waiting for application startup.")
    say("INFO:     Application startup complete.")
    server = open_port(args, behaviour, family)
    drain_on_sigterm(behaviour, family)
    say(f"INFO:     Uvicorn running on http://{args['host']}:{args['port']} (Press CTRL+C to quit)")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    behaviour.enter("warmup", "main", fail)
    rank = "TP0" if args["tp_size"] > 1 else ""
    say("Prefill batch, #new-seq: 1, #new-token: 29, #cached-token: 0, token usage: 0.01, #running-req: 0", rank)
    family.serving.set()
    server.warm.set()
    say("The server is fired up and ready to roll!")
    family.begin_serving_actions()
    behaviour.while_serving("main", fail)
    while True:
        signal.pause()


def main(argv):
    behaviour = script.load()
    raw("SGLang STAND-IN, not SGLang: a scripted server without a model\n")
    behaviour.enter("import", "main", fail)
    load_plugins()
    args = parse(argv)
    importlib.import_module("sglang.srt.layers.logits_processor")
    behaviour.enter("args", "main", fail)
    shown = {**args, "api_key": args["api_key"] and "<redacted>"}
    say(f"server_args={shown}")
    family = Family(args, behaviour)
    family.start()
    family.wait_until_loaded()
    serve(args, behaviour, family)


if __name__ == "__main__":
    main(sys.argv[1:])
