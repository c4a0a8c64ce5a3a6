"""Operations on one host: `call` for an answer, `stream` for events, over any transport."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sglfab.transports.base import ChannelIdle, Transport
from sglfab.transports.bundle import Bundle, bootstrap_argv, bundle
from sglfab.transports.conversation import Conversation, no_python

Json = dict[str, Any]


# How long a host may take to start an interpreter: a cold NFS home, a busy machine.
START_S = 60.0
_FOREVER_S = 1e6


class Stream(Iterator[Json]):
    """The events of one running operation; after the last one, `reply` is its reply. idle_s None: silence is fine."""

    def __init__(self, talk: Conversation, *, idle_s: float | None) -> None:
        self._talk, self._idle_s = talk, idle_s
        self._reply: Json | None = None

    def __next__(self) -> Json:
        return self.next_event(idle_s=self._idle_s)

    def next_event(self, *, idle_s: float | None) -> Json:
        """The next event. Raises StopIteration after the reply, ChannelIdle, ChannelLost, or what hostside sent."""
        if self._reply is not None:
            raise StopIteration
        message = self._talk.next_message(idle_s=_FOREVER_S if idle_s is None else idle_s)
        if "event" in message:
            event: Json = message["event"]
            return event
        self._reply = message["reply"]
        raise StopIteration

    def ask(self, what: str) -> None:
        """Ask the running operation for something more. Raises ChannelLost."""
        self._talk.send({"ask": what})

    def tell(self, kind: str, data: Json) -> None:
        """Hand the running operation an observation of this side's. Raises ChannelLost."""
        self._talk.send({"tell": {"kind": kind, "data": data}})

    @property
    def reply(self) -> Json:
        """The operation's reply; events that nobody asked for until now are let pass. Raises as `next_event`."""
        for _ in self:
            pass
        assert self._reply is not None
        return self._reply


class Host:
    """One host, reached by `transport` (or by what a factory makes anew at each reconnect).

    python: the interpreter of the profile, or a venv's folder; "python3" is looked up in the host's PATH.
    state_dir: on the host; None: `$SGLFAB_STATE_DIR` there, else `~/.sglfab`.
    program: what runs there; None: hostside of this checkout.
    Calls and streams may run at once in several threads; each stream belongs to one thread.
    """

    def __init__(
        self,
        transport: Transport | Callable[[], Transport],
        *,
        python: str = "python3",
        state_dir: str | None = None,
        label: str | None = None,
        program: Bundle | None = None,
    ) -> None:
        self._make = transport if callable(transport) else None
        self._transport: Transport = transport() if callable(transport) else transport
        self.python, self.state_dir = python, state_dir
        self.label = label or self._transport.label
        self._program = program or bundle()
        self._lock = threading.Lock()
        self._gaps: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the operator's ssh config may matter and is not done, in words; `transport.notes` has all of it."""
        return tuple(str(note) for note in getattr(self._transport, "notes", ()) if note.level == "warning")

    @property
    def gaps(self) -> tuple[str, ...]:
        """What could not be done on the host as it should be, in words."""
        return tuple(self._gaps)

    def call(self, op: str, request: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        """Run an operation and return its reply; its events are dropped.

        Raises the error that hostside sent, InputError (`no-python`, …), UnreachableError, ChannelLost, ChannelIdle.
        """
        deadline = time.monotonic() + timeout_s
        try:
            with self.stream(op, request, idle_s=timeout_s, start_s=timeout_s) as events, suppress(StopIteration):
                while True:
                    events.next_event(idle_s=max(0.0, deadline - time.monotonic()))
        except ChannelIdle:
            raise ChannelIdle(f"`{op}` gave no answer within {timeout_s:g} s", where=self.label) from None
        return events.reply

    @contextmanager
    def stream(
        self,
        op: str,
        request: Mapping[str, Any] | None = None,
        *,
        idle_s: float | None = 60.0,
        start_s: float = START_S,
    ) -> Iterator[Stream]:
        """Run an operation; `for event in stream` until its reply. Leaving the block ends it on the host."""
        talk = self._start(start_s)
        try:
            talk.send({**(request or {}), "op": op, "state_dir": self.state_dir})
            yield Stream(talk, idle_s=idle_s)
        finally:
            talk.close()

    def _start(self, start_s: float) -> Conversation:
        """hostside, alive and waiting for its request."""
        failures = []
        for python in self._candidates():
            talk = Conversation(
                self._transport.open(bootstrap_argv(python, self._program.sha, self.state_dir)), self.label
            )
            ended = talk.begin(self._program, idle_s=start_s)
            if ended is None:
                self.python = python
                self._note(talk.gap)
                return talk
            failures.append(ended)
            if not ended.not_executable:
                break
        raise no_python(self.python, self.label, failures[0])

    def _candidates(self) -> tuple[str, ...]:
        """The interpreter as given; when it cannot be executed, it may be the folder of a venv."""
        if "/" not in self.python or self.python.endswith("/bin/python"):
            return (self.python,)
        return (self.python, self.python.rstrip("/") + "/bin/python")

    def _note(self, gap: str | None) -> None:
        if gap:
            with self._lock:
                self._gaps[gap] = None

    def reconnect(self) -> None:
        """Drop the connection and prove a new one. Raises as `call` does."""
        self._transport.close()
        if self._make is not None:
            self._transport = self._make()
        self.call("ping", timeout_s=30.0)

    def close(self) -> None:
        self._transport.close()
