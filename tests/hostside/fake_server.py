"""A scripted server: `fake_server.py '{"port": N, …}'` imitates SGLang's processes and HTTP side as its JSON says.

children: titles to start (`sglang::scheduler_TP0`), as setproctitle would leave them; busy: title → Python file, of
children that do something; listen: default true;
ready_at: /health is 503 until that file exists; exit: {"code", "at"}: at once, or when the file `at` exists;
orphan_s: a child whose parent is gone, for that long; ignore_term: SIGTERM does nothing; print: lines for the log;
generation: false makes the info endpoint say so; old: the info endpoint has its name of before 0.5.6;
api_key: /generate wants it; dump: a file that takes the environment and more.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORDER = json.loads(sys.argv[1])


def exists(path):
    return path is None or os.path.exists(path)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def reply(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        info = "/get_model_info" if ORDER.get("old") else "/model_info"
        if self.path == "/health":
            self.reply(200 if exists(ORDER.get("ready_at")) else 503)
        elif self.path == info:
            self.reply(200, json.dumps({"is_generation": ORDER.get("generation", True)}).encode())
        elif self.path == "/trickle":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            for _ in range(100):
                self.wfile.write(b".")
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.reply(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if ORDER.get("api_key") and self.headers.get("Authorization") != "Bearer " + ORDER["api_key"]:
            self.reply(401)
        elif self.path == "/echo":
            self.reply(200, body)
        else:
            self.reply(200, json.dumps({"text": " there", "asked": json.loads(body)}).encode())


def orphan(seconds):
    """Its parent ends at once, so that it comes to whoever is the subreaper."""
    subprocess.run(["/bin/sh", "-c", f"sleep {seconds} & exit 0"], check=True)


def children():
    for title in ORDER.get("children", []):
        subprocess.Popen([title, "3600"], executable="/bin/sleep")
    for title, program in ORDER.get("busy", {}).items():
        subprocess.Popen([title, program], executable=sys.executable)


def dump(path):
    """What this process was given, for a test to look at."""
    fd = os.environ.get("SGLFAB_SECRETS_FD")
    secrets = os.read(int(fd), 65536).decode() if fd else None
    umask = os.umask(0)
    os.umask(umask)
    seen = {"env": dict(os.environ), "secrets": secrets, "umask": umask, "session": os.getsid(0), "cwd": os.getcwd()}
    seen["fds"] = {name: os.readlink(f"/proc/self/fd/{name}") for name in ("0", "1", "2")}
    seen["ignored"] = [n for n in (1, 2, 3, 15) if signal.getsignal(n) == signal.SIG_IGN]
    with open(path + ".new", "w") as file:
        json.dump(seen, file)
    os.rename(path + ".new", path)


def main():
    for line in ORDER.get("print", []):
        print(line, flush=True)
    if ORDER.get("dump"):
        dump(ORDER["dump"])
    if ORDER.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children()
    if ORDER.get("orphan_s"):
        orphan(ORDER["orphan_s"])
    if ORDER.get("port") and ORDER.get("listen", True):
        server = ThreadingHTTPServer(("127.0.0.1", ORDER["port"]), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("all stands", flush=True)
    if ORDER.get("exit"):
        while not exists(ORDER["exit"].get("at")):
            time.sleep(0.01)
        sys.exit(ORDER["exit"]["code"])
    while True:
        time.sleep(3600)


main()
