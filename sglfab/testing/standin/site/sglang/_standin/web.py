"""The HTTP side: the paths that a waiting or asking client uses, with SGLang's status codes."""

import json
import threading
import time
import zlib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sglang._standin.script import say

NEVER_S = 3600
# SGLang answers these without a key: utils.add_api_key_middleware.
OPEN_PATHS = ("/health", "/metrics")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, args, script, family, version):
        self.args, self.script, self.family, self.version = args, script, family, version
        self.warm = threading.Event()
        super().__init__((args["host"], args["port"]), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.serve({"/health": self.health, "/health_generate": self.health, "/model_info": self.model_info})

    def do_POST(self):
        self.serve({"/generate": self.generate})

    def serve(self, own):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if self.server.family.detokenizer_gone():
            time.sleep(NEVER_S)
        shared = {
            "/flush_cache": self.flush_cache,
            "/get_model_info": self.model_info,
            "/server_info": self.server_info,
            "/get_server_info": self.server_info,
            "/v1/models": self.models,
        }
        answer = {**shared, **own}.get(path)
        if not self.allowed(path):
            self.reply(401, {"error": "Unauthorized"})
        elif answer is None:
            self.reply(404, {"detail": "Not Found"})
        else:
            answer(body)

    def allowed(self, path):
        key = self.server.args["api_key"]
        return not key or path.startswith(OPEN_PATHS) or self.headers.get("Authorization") == f"Bearer {key}"

    def health(self, _body):
        if not self.server.warm.is_set():
            return self.reply(503)
        mood = self.server.script["health"]
        if mood == "timeout" or not self.server.family.answering():
            time.sleep(NEVER_S)
        return self.reply(503 if mood == "503" else 200)

    def model_info(self, _body):
        path = self.server.args["model_path"]
        self.reply(
            200, {"model_path": path, "tokenizer_path": path, "is_generation": True, "weight_version": "default"}
        )

    def server_info(self, _body):
        shown = {k: v for k, v in self.server.args.items() if k != "api_key"}
        self.reply(200, {**shown, "version": self.server.version, "status": "ready"})

    def models(self, _body):
        entry = {"id": self.server.args["served_model_name"], "object": "model", "owned_by": "sglang"}
        self.reply(200, {"object": "list", "data": [entry]})

    def flush_cache(self, _body):
        say("Cache flushed successfully!")
        self.reply(200, text="Cache flushed.\nPlease check backend logs for more details.\n")

    def generate(self, body):
        if not self.server.family.answering():
            time.sleep(NEVER_S)
        asked = json.loads(body or b"{}")
        prompt = json.dumps(asked.get("text", asked.get("input_ids", "")))
        count = int((asked.get("sampling_params") or {}).get("max_new_tokens", 16))
        seed = zlib.crc32(prompt.encode())
        ids = [(seed + 7 * i) % 256 for i in range(count)]
        meta = {"id": f"standin-{seed}", "finish_reason": {"type": "length", "length": count}, "e2e_latency": 0.01}
        meta |= {"prompt_tokens": len(prompt), "completion_tokens": count, "cached_tokens": 0, **self.acceptance(count)}
        self.reply(
            200, {"text": "stand-in, no model: " + " ".join(map(str, ids)), "output_ids": ids, "meta_info": meta}
        )

    def acceptance(self, count):
        """What a perfect draft would show; the stand-in has none, and its text says so."""
        steps = self.server.args["speculative_num_steps"]
        if not self.server.args["speculative_algorithm"] or not steps:
            return {}
        rounds = max(1, -(-count // (steps + 1)))
        length = count / rounds
        return {"spec_verify_ct": rounds, "spec_accept_length": length, "spec_accept_rate": (length - 1) / steps}

    def reply(self, status, value=None, text=""):
        data = (json.dumps(value) if value is not None else text).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(data)))
        if value is not None:
            self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(data)
        host, port = self.client_address[:2]
        phrase = HTTPStatus(status).phrase
        say(f'INFO:     {host}:{port} - "{self.command} {self.path} HTTP/1.1" {status} {phrase}')

    def log_message(self, *_):
        """The line of reply() is the log."""
