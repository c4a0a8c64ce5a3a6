"""Whether the other end of an SSH connection still answers."""

from __future__ import annotations

import threading
import time

import paramiko

EVERY_S, SILENCE_S = 15.0, 45.0


class Pulse:
    """Asks the server every EVERY_S for a sign of life, and closes the connection after SILENCE_S without one.

    paramiko's own keep-alive asks for no answer, so that a host that lost power, or a NAT that forgot us, stays
    "connected" until TCP gives up, up to a quarter of an hour later; and some of its waits have no end of their own.
    """

    def __init__(
        self, transport: paramiko.Transport, *, every_s: float = EVERY_S, silence_s: float = SILENCE_S
    ) -> None:
        self._transport, self._every_s, self._silence_s = transport, every_s, silence_s
        self._last = time.monotonic()
        self._stopped = threading.Event()
        # Two threads: the first one is stuck in paramiko while an answer is due.
        threading.Thread(target=self._ask, name="ssh-pulse", daemon=True).start()
        threading.Thread(target=self._watch, name="ssh-silence", daemon=True).start()

    def _ask(self) -> None:
        while not self._stopped.wait(self._every_s) and self._transport.is_active():
            # Denied is an answer too: sshd denies every request that it does not know.
            self._transport.global_request("keepalive@openssh.com", wait=True)
            if self._transport.is_active():
                self._last = time.monotonic()

    def _watch(self) -> None:
        while not self._stopped.wait(self._silence_s / 20) and self._transport.is_active():
            if not self.alive:
                self._transport.close()

    def silent_s(self) -> float:
        return time.monotonic() - self._last

    @property
    def alive(self) -> bool:
        return bool(self._transport.is_active()) and self.silent_s() <= self._silence_s

    def why(self) -> str:
        """Why the connection is no longer alive, in words."""
        silent = self.silent_s()
        return f"the host has not answered for {silent:.0f} s" if silent > self._silence_s else "the connection broke"

    def stop(self) -> None:
        self._stopped.set()
