"""`watch`: look at one server and tell what is seen, until stdin ends. It judges nothing and touches nothing."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from sglfab.hostside.stdin import Stdin
from sglfab.hostside.watch_gpu import watch_gpus
from sglfab.hostside.watch_http import HttpWatch, Identity
from sglfab.hostside.watch_kernel import KernelWatch
from sglfab.hostside.watch_log import LogWatch
from sglfab.hostside.watch_processes import ExitWatch, ProcessWatch
from sglfab.hostside.watch_record import recorder_of
from sglfab.hostside.watch_shm import ShmWatch
from sglfab.hostside.watch_stacks import StackWatch
from sglfab.hostside.watch_subject import Subject, subject_of
from sglfab.hostside.watch_trace import TraceWatch

Json = Dict[str, Any]
Emit = Callable[[Json], None]
Put = Callable[[str, Json], None]

_TURN_S = 0.05
LOG_S, ALIVE_S, EXIT_S, TRACE_S, KERNEL_S, SHM_S, ASKED_S, TICK_S = 0.1, 0.2, 0.2, 0.5, 0.5, 0.5, 0.5, 1.0
ALONE_TICK_S = 0.25  # where nothing but the operator's side looks: it does so at each event


class Observations:
    """Where every part of the watch puts what it saw, stamped with seconds since the start; one thread writes it."""

    def __init__(self, emit: Emit, record: Callable[[Json], Optional[str]]) -> None:
        self._emit, self._record = emit, record
        self._began = time.monotonic()
        self._waiting: "queue.Queue[Tuple[float, str, Json]]" = queue.Queue()
        self._order = threading.Lock()

    def put(self, kind: str, data: Json) -> None:
        """From any thread."""
        with self._order:  # so that the times in the queue never go back
            self._waiting.put((time.monotonic() - self._began, kind, data))

    def flush(self, timeout_s: float) -> None:
        """Write out what waits; wait for the first for at most timeout_s."""
        try:
            item = self._waiting.get(timeout=timeout_s)
            while True:
                self._write(*item)
                item = self._waiting.get_nowait()
        except queue.Empty:
            return

    def _write(self, t: float, kind: str, data: Json) -> None:
        observation = {"t": round(t, 3), "kind": kind, "data": data}
        trouble = self._record(observation)
        self._emit(observation)
        if trouble:
            self.put("gap", {"text": trouble})


def watch(request: Json, emit: Emit, stdin_closed: Stdin) -> Json:
    """Observations of a run (`run_id`) or of any of `pid`, `port`, `log`; `stacks` when the operator's side asks.

    What that side tells that it has seen takes its place among them; where nothing is named, it is all there is.
    Raises HostError run-unknown, pid-unknown, log-unreadable.
    """
    subject = subject_of(request)
    recorder = recorder_of(request, subject.run_dir)
    seen = Observations(emit, recorder.write)
    seen.put("start", {**subject.start_data(), "record": recorder.name})
    for text in subject.gaps:
        seen.put("gap", {"text": text})
    turns = _turns(subject, request, seen.put, stdin_closed)
    try:
        while not stdin_closed.is_set():
            now = time.monotonic()
            for turn in turns:
                turn.run(now)
            seen.flush(_TURN_S)
        seen.flush(0)
    finally:
        recorder.close()
    return {}


class Turn:
    """Something that the one loop does every so often, so that what it puts keeps its order: log, processes, exit."""

    def __init__(
        self,
        every_s: float,
        work: Callable[[], None],
        *,
        only_if: Callable[[], bool] = lambda: True,
        again: Callable[[], bool] = lambda: False,
    ) -> None:
        """only_if: skipped otherwise; again: due at the very next turn of the loop."""
        self._every_s, self._work, self._due = every_s, work, 0.0
        self._only_if, self._again = only_if, again

    def run(self, now: float) -> None:
        if (now >= self._due or self._again()) and self._only_if():
            self._due = now + self._every_s
            self._work()


def _turns(subject: Subject, request: Json, put: Put, closed: Stdin) -> List[Turn]:
    told = Turn(0.0, lambda: _pass_on(closed.told(), put))
    if subject.nothing:
        return [told, Turn(ALONE_TICK_S, lambda: put("tick", {}))]
    log = LogWatch(subject.log, int(request.get("from_offset") or 0), put) if subject.log else None
    kernel = KernelWatch(subject, put)
    kernel.start(closed)
    turns = [Turn(LOG_S, log.poll, again=lambda: log.behind)] if log else []
    turns += [told, Turn(KERNEL_S, kernel.poll)]
    if subject.server:
        caught_up = (lambda: not log.behind) if log else _yes

        def last_words() -> None:
            """Before an end is told, what was said of it until then: the cause is judged before the consequence."""
            if log:
                log.drain()
            kernel.look()

        processes = ProcessWatch(subject.server, put, last_words)
        turns.append(Turn(ALIVE_S, processes.poll, only_if=caught_up))
        stacks = StackWatch(subject.server.main.pid, put)
        turns.append(Turn(ASKED_S, lambda: _answer(closed.asked(), processes, stacks)))
        if subject.run_dir:
            turns.append(Turn(EXIT_S, ExitWatch(subject.run_dir, put, last_words).poll, only_if=caught_up))
    if subject.run_dir and subject.patches:
        turns.append(Turn(TRACE_S, TraceWatch(subject.run_dir, put).poll))
    if subject.port:
        _start_http(subject, request, put, closed)
    threading.Thread(target=watch_gpus, args=(put, closed), name="gpu", daemon=True).start()
    turns.append(Turn(SHM_S, ShmWatch(subject.server.main.pid if subject.server else None, put).poll))
    turns.append(Turn(TICK_S, lambda: put("tick", {})))
    return turns


def _answer(asked: List[str], processes: ProcessWatch, stacks: StackWatch) -> None:
    if "stacks" in asked:
        stacks.take(processes.watched())


def _pass_on(told: List[Tuple[str, Json]], put: Put) -> None:
    for kind, data in told:
        put(kind, data)


def _yes() -> bool:
    return True


def _start_http(subject: Subject, request: Json, put: Put, closed: threading.Event) -> None:
    assert subject.port is not None
    http = HttpWatch(
        subject.host,
        subject.port,
        identity=Identity(subject.port, subject.server),
        put=put,
        closed=closed,
        api_key=request.get("api_key"),
        timeout_s=float(request.get("probe_timeout_s") or 25.0),
        generate=bool(request.get("generate", True)),
    )
    threading.Thread(target=http.run, name="http", daemon=True).start()
