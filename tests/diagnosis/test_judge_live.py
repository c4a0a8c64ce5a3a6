"""The judge on observations as a live wait sees them. Times are seconds since the watch began."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.expectation import Expectation
from sglfab.diagnosis.judge import Judge
from sglfab.model import Observation
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT / "tests" / "cases" / "real"
NAMES = {1: ("main", "python -m sglang.launch_server"), 2: ("scheduler", "sglang::scheduler_TP0")}
NAMES |= {3: ("scheduler", "sglang::scheduler_TP1"), 4: ("detokenizer", "sglang::detokenizer")}


@lru_cache(maxsize=1)
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


def real_log(name: str) -> str:
    return (REAL / name / "server.log").read_bytes().decode()


class Wait:
    """A judge with a short hand for observations."""

    def __init__(self, **expected: Any) -> None:
        self.judge = Judge(signatures(), expect=Expectation(**expected))
        self.offset = 0

    def start(self, t: float = 0.0, **data: Any) -> Wait:
        base = {"wall": 1000.0, "started_wall": 1000.0, "main": 1, "port": 8000, "tp_size": 2, "patches": []}
        return self.see(t, "start", **(base | data))

    def see(self, t: float, kind: str, **data: Any) -> Wait:
        self.judge.feed(Observation(t, kind, data))
        return self

    def log(self, t: float, text: str) -> Wait:
        self.see(t, "log", offset=self.offset, data=text)
        self.offset += len(text.encode())
        return self

    def http(self, t: float, what: str, state: str, *, ours: bool | None = True, ms: float = 5, **data: Any) -> Wait:
        return self.see(t, "http", what=what, state=state, ours=ours, ms=ms, **data)

    def alive(
        self, t: float, *pids: int, gone: tuple[int, ...] = (), stopped: tuple[int, ...] = (), cpu: float | None = None
    ) -> Wait:
        seen = [
            {
                "pid": pid,
                "start": 1,
                "role": NAMES[pid][0],
                "title": NAMES[pid][1],
                "state": "T" if pid in stopped else "S",
                "cpu_s": cpu if cpu is not None else t,
                "rss_kb": 1,
                "read_kb": 0,
            }
            for pid in pids
        ]
        lost = [{"pid": pid, "role": NAMES[pid][0], "title": NAMES[pid][1]} for pid in gone]
        return self.see(t, "processes", alive=seen, gone=lost)

    def at(self, now: float) -> Any:
        return self.judge.verdict(now)

    def says(self, now: float) -> str:
        return str(self.at(now).verdict)


def serving(**expected: Any) -> Wait:
    wait = Wait(**expected).start().alive(0.1, 1, 2, 3, 4)
    return wait.log(5, real_log("dsv2_tp2")).http(6, "health", "200").http(6.5, "generate", "200")


def test_ready_needs_health_and_a_token() -> None:
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).log(5, real_log("dsv2_tp2"))
    assert wait.says(5.1) == "loading"
    wait.http(6, "health", "200")
    assert wait.says(6.1) == "loading"
    wait.http(6.5, "generate", "200")
    assert wait.says(6.6) == "ready"
    assert wait.at(6.6).stage == "serving"


def test_a_model_that_does_not_generate_is_ready_by_health_alone_with_the_gap_named() -> None:
    wait = Wait().start().http(5, "model_info", "200", body={"is_generation": False}).http(6, "health", "200")
    verdict = wait.at(6.1)
    assert verdict.verdict == "ready"
    assert any("does not generate" in gap for gap in verdict.gaps)


def test_an_unknown_owner_of_the_port_is_a_gap() -> None:
    wait = Wait().start().http(6, "health", "200", ours=None).http(7, "generate", "200", ours=None)
    assert wait.says(7.1) == "ready"
    assert any("socket" in gap for gap in wait.at(7.1).gaps)


BARE = (
    'Traceback (most recent call last):\n  File "/x/sglang/srt/a.py", line 1, in b\n    c()\nRuntimeError: who knows\n'
)
ALIVE = "[2026-12-01 10:00:00 TP0] Decode batch, #running-req: 1, #token: 1, token usage: 0.01\n"


def log_alone(text: str, **start: Any) -> Wait:
    return Wait().start(**{"main": None, "port": None, "started_wall": None, **start}).log(0.1, text)


ENDED = {
    "a bare traceback": (lambda: log_alone(BARE), 6, "crashed"),
    "a bare traceback a moment ago": (lambda: log_alone(BARE), 3, "loading"),
    "a traceback that was survived": (lambda: log_alone(BARE + ALIVE), 60, "ready"),
    "one after which something is written again and again": (lambda: log_alone(BARE).log(58, "x\n"), 60, "loading"),
    "a bare traceback, and nobody listens": (
        lambda: log_alone(BARE, port=1).http(1, "health", "refused"),
        6,
        "crashed",
    ),
    "a bare traceback of a server that answers": (
        lambda: log_alone(BARE, port=1).http(1, "health", "503"),
        60,
        "loading",
    ),
    "a bare traceback of a process that lives": (lambda: log_alone(BARE, main=1).alive(1, 1), 60, "loading"),
}


@pytest.mark.parametrize(("wait", "now", "says"), ENDED.values(), ids=ENDED.keys())
def test_a_log_that_ends_in_a_traceback(wait: Callable[[], Wait], now: float, says: str) -> None:
    assert wait().says(now) == says


def test_a_log_alone_that_shows_a_server_at_fault_is_degraded() -> None:
    text = (ROOT / "tests" / "cases" / "dev" / "d024-accept-100" / "server.log").read_text()
    verdict = log_alone(text).at(10)
    assert (verdict.verdict, verdict.primary.id) == ("degraded", "spec.low_accept")


MODEL_INFO = {"model_path": "/m", "tokenizer_path": "/m", "is_generation": True}


def test_a_model_info_of_sglang_tells_whose_server_it_is() -> None:
    wait = Wait().start().http(6, "health", "200", ours=None).http(6.1, "model_info", "200", ours=None, body=MODEL_INFO)
    verdict = wait.http(7, "generate", "200", ours=None).at(7.1)
    assert (verdict.verdict, verdict.gaps) == ("ready", ())


STRANGERS = {
    "a file server": ({"text": "ok"}, 200, 501, "unreachable"),
    "one without the path": (None, 404, 404, "unreachable"),
    "one without the method": ({"text": "<html>"}, 200, 405, "unreachable"),
    "SGLang whose scheduler is away": (MODEL_INFO, 200, 500, "loading"),
    "SGLang that wants a key": (None, 401, 401, "ready"),
    "a gateway without a backend": (None, 502, 502, "loading"),
    "a gateway that knows one path": (MODEL_INFO, 200, 404, "loading"),
    "a stranger that generates": ({"text": "ok"}, 200, 200, "ready"),
}


@pytest.mark.parametrize(("body", "info", "generate", "says"), STRANGERS.values(), ids=STRANGERS.keys())
@pytest.mark.parametrize("ours", [True, None])
def test_what_answers_and_is_no_sglang_is_not_waited_for(ours, body, info, generate, says) -> None:
    wait = Wait().start().http(6, "health", "200", ours=ours, status=200)
    wait.http(6.1, "model_info", "other", ours=ours, status=info, body=body)
    state = str(generate) if generate in (200, 503) else "other"
    assert wait.http(6.2, "generate", state, ours=ours, status=generate).says(7) == says


def test_what_hinders_is_in_the_view() -> None:
    wait = Wait().start().http(1, "health", "other", ours=None, status=404)
    assert wait.judge.view(1).http_detail == "HTTP 404"
    assert wait.http(2, "health", "other", ours=None, detail="no such name").judge.view(2).http_detail == "no such name"
    assert wait.http(3, "health", "refused", detail="nobody listens").judge.view(3).http_detail == ""
    wait.http(4, "health", "200", status=200).http(5, "generate", "other", status=500)
    assert wait.judge.view(5).http_detail == "one token: 500"


@pytest.mark.parametrize("state", ["refused", "503", "timeout", "other"])
def test_no_other_http_state_is_ready(state: str) -> None:
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).http(6, "health", state).http(6.5, "generate", state)
    assert wait.says(7) == "loading"


def test_a_foreign_server_on_the_port_is_unreachable() -> None:
    wait = Wait().start(main=None).http(1, "health", "200", ours=False, detail="pid 77 of bob: python")
    assert wait.says(1.1) == "unreachable"
    assert any("pid 77" in note for note in wait.at(1.1).notes)


def test_while_ours_still_loads_a_foreign_answer_is_not_the_end() -> None:
    wait = (
        Wait()
        .start()
        .alive(0.1, 1, 2, 3, 4)
        .http(1, "health", "200", ours=False)
        .http(1, "generate", "200", ours=False)
    )
    assert wait.says(2) == "loading"


def test_a_busy_port_is_a_crash_although_the_launcher_hangs() -> None:
    wait = (
        Wait().start().alive(0.1, 1, 2, 3, 4).http(1, "health", "200", ours=False).log(20, real_log("err_port_in_use"))
    )
    assert wait.says(20.1) == "loading"
    verdict = wait.at(20.5)
    assert verdict.verdict == "crashed"
    assert verdict.primary.category == "port.in_use"


@pytest.mark.parametrize("name", ["err_trunc_shard", "err_missing_shard", "err_bad_arch", "err_unknown_flag"])
def test_a_crash_settles_within_two_seconds_of_the_death(name: str) -> None:
    wait = (
        Wait()
        .start()
        .alive(0.1, 1, 2)
        .log(14.9, real_log(name))
        .alive(15, gone=(1, 2))
        .see(15.1, "exit", code=-9, signal="SIGKILL")
    )
    assert wait.says(15.15) == "loading"
    verdict = wait.at(15.5)
    assert verdict.verdict == "crashed"
    assert verdict.primary.category != "host.oom_killer"
    assert verdict.exit.code == -9


def test_cause_lines_that_come_after_the_death_are_waited_for() -> None:
    wait = Wait().start().alive(0.1, 1, 2).alive(15, gone=(2,)).log(15.7, real_log("err_trunc_shard"))
    assert wait.at(16.01).primary.category == "files.corrupt"


def test_kill_9_of_a_scheduler_that_the_log_reports() -> None:
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).log(5, real_log("kill_scheduler")).alive(5.2, 1, 3, 4, gone=(2,))
    verdict = wait.at(6.3)
    assert verdict.verdict == "crashed"
    assert verdict.primary.category == "host.oom_killer"
    assert verdict.primary.confidence == "low"
    assert any("OOM killer" in gap for gap in verdict.gaps)


def test_the_launcher_killed_with_9_is_a_crash_that_the_log_cannot_show() -> None:
    wait = serving().alive(9, 2, 3, 4, gone=(1,)).see(9, "exit", code=-9, signal="SIGKILL")
    verdict = wait.at(9.4)
    assert verdict.verdict == "crashed"
    assert verdict.exit.signal == "SIGKILL"


def test_a_dead_detokenizer_is_a_crash_although_everything_else_lives() -> None:
    wait = serving().alive(9, 1, 2, 3, gone=(4,))
    assert wait.says(9.5) == "loading"
    verdict = wait.at(10.1)
    assert verdict.verdict == "crashed"
    assert "detokenizer" in verdict.primary.evidence[-1].text


NAMED = {
    "the detokenizer, which was never seen": (
        "Subprocess detokenizer (pid=77) crashed with exit code -9. Triggering",
        None,
    ),
    "another rank, which was never seen": (
        "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9).",
        None,
    ),
    "this rank": ("RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).", "TP0"),
    "this process": ("Subprocess scheduler_0 (pid=2) crashed with exit code -9. Triggering", "TP0"),
}


@pytest.mark.parametrize(("line", "rank"), NAMED.values(), ids=NAMED.keys())
def test_the_launcher_names_who_died_first(line: str, rank: str | None) -> None:
    wait = Wait().start().alive(0.1, 1, 2).see(0.2, "kernel", lines=[]).log(5, f"[2026-12-01 09:29:00] {line}\n")
    wait.alive(5.1, 1, gone=(2,)).see(6, "kernel", lines=[])
    primary = wait.at(7).primary
    assert (primary.id, primary.rank) == ("unknown", rank)
    assert any("is gone" in one.text for one in primary.evidence) is (rank is not None)


def test_a_stopped_server_is_crashed_and_its_title_says_stopped() -> None:
    text = "[2026-12-01 01:30:53] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...\n"
    wait = serving().log(9, text).alive(10, gone=(1, 2, 3, 4)).see(10, "exit", code=0, signal=None)
    verdict = wait.at(11.1)
    assert verdict.verdict == "crashed"
    assert verdict.primary.category == "operator.killed"
    assert "stopped" in verdict.primary.title


def test_a_scheduler_stopped_while_serving_is_stuck_with_its_rank() -> None:
    wait = serving(allowances={"serving": 10}).alive(7, 1, 2, 3, 4, stopped=(3,), cpu=5)
    assert wait.says(12) == "ready"
    wait.http(17.5, "health", "timeout", ours=None, ms=10000).alive(18, 1, 2, 3, 4, stopped=(3,), cpu=5)
    verdict = wait.at(18.1)
    assert verdict.verdict == "stuck"
    assert verdict.primary.rank == "TP1"


def test_a_short_pause_of_a_rank_is_not_stuck() -> None:
    wait = serving(allowances={"serving": 10}).alive(7, 1, 2, 3, 4, stopped=(3,)).alive(12, 1, 2, 3, 4)
    assert wait.http(13, "health", "200").says(20) == "ready"


def test_an_unanswered_health_with_idle_ranks_is_stuck() -> None:
    wait = serving(allowances={"serving": 10}).alive(7, 1, 2, 3, 4, cpu=5)
    wait.http(32, "health", "timeout", ours=None, ms=25000).alive(33, 1, 2, 3, 4, cpu=5)
    assert wait.says(33.1) == "stuck"


def test_a_busy_rank_behind_a_slow_health_is_not_stuck() -> None:
    wait = serving(allowances={"serving": 10})
    for t in range(7, 34):
        wait.alive(t, 1, 2, 3, 4, cpu=float(t))
    wait.http(33.5, "health", "timeout", ours=None, ms=25000)
    assert wait.says(33.6) != "stuck"


def quiet_start(minutes: int, *, busy: bool, **expected: Any) -> list[Any]:
    """Verdicts, one every 10 s, of a load of both ranks that says nothing for some minutes."""
    head = "".join(real_log("dsv2_tp2").partition("TP0] Load weight begin.")[:2]) + "\n"
    wait = Wait(**expected).start().alive(0.1, 1, 2, 3, 4).log(1, head)
    found = []
    for t in range(10, minutes * 60, 10):
        wait.alive(t, 1, 2, 3, 4, cpu=float(t) if busy else 1.0).http(t, "health", "refused", ours=None).see(t, "tick")
        found.append(wait.at(t))
    return found


def verdicts(found: list[Any]) -> set[str]:
    return {verdict.verdict for verdict in found}


def test_a_healthy_start_with_quiet_minutes_never_leaves_loading() -> None:
    assert verdicts(quiet_start(20, busy=True)) == {"loading"}
    assert verdicts(quiet_start(6, busy=False)) == {"loading"}


def test_two_flat_signals_beyond_the_allowance_are_stuck() -> None:
    assert verdicts(quiet_start(59, busy=False)) == {"loading"}
    last = quiet_start(70, busy=False)[-1]
    assert last.verdict == "stuck"
    assert "progress may stand still in load-weights for 3600 s (the default)" in last.notes


def warming_up(minutes: int, *, line: str) -> str:
    """What is said after minutes of idle ranks and 503, in which each probe leaves a line in the log."""
    head = real_log("dsv2_tp2").partition('"GET /health')[0].rpartition("\n")[0] + "\n"
    wait = Wait(allowances={"warmup": 300}).start().alive(0.1, 1, 2, 3, 4).log(1, head)
    for t in range(2, minutes * 60, 2):
        wait.http(t, "health", "503").log(t, line).alive(t, 1, 2, 3, 4, cpu=1.0)
    return wait.says(minutes * 60)


def test_the_lines_that_probes_leave_in_the_log_are_no_progress() -> None:
    probed = '[2026-12-01 01:23:01] INFO:     127.0.0.1:51154 - "GET /health HTTP/1.1" 503 Service Unavailable\n'
    assert warming_up(4, line=probed) == "loading"
    assert warming_up(6, line=probed) == "stuck"
    assert warming_up(6, line=probed + "[2026-12-01 01:23:06 TP1] warming up kernel 7\n") == "loading"


def test_former_starts_make_it_sooner_but_never_sooner_than_ten_minutes() -> None:
    former = {"load-weights": (40.0, 50.0, 45.0)}
    assert verdicts(quiet_start(10, busy=False, former=former)) == {"loading"}
    assert verdicts(quiet_start(20, busy=True, former=former)) == {"loading"}
    last = quiet_start(11, busy=False, former=former)[-1]
    assert last.verdict == "stuck"
    assert "progress may stand still in load-weights for 600 s (from 3 former starts)" in last.notes


def test_a_deadline_is_a_hard_cap_and_there_is_none_by_default() -> None:
    assert Wait(deadline_s=60).start().alive(1, 1, 2).see(60, "tick").says(60.1) == "timed_out"
    assert Wait().start().alive(1, 1, 2).see(600, "tick").says(600) == "loading"


def traced(ranks: dict[str, Any], now: float, **expected: Any) -> Any:
    wait = serving(patches=("eagle3-hidden-states",), tp_size=2, **expected)
    return wait.see(7, "trace", ranks=ranks).at(now)


PROVED = {"proof": True, "wrapped": 5, "missing": [], "records": {"target": 3, "draft": 2}}


def test_patches_that_are_proved_on_every_rank_are_ready() -> None:
    assert traced({"0": PROVED, "1": PROVED}, 7.1, draft=True).verdict == "ready"


@pytest.mark.parametrize(
    "second", [{}, {"proof": False, "missing": ["LogitsProcessor.forward"]}, {"proof": True, "records": {"target": 3}}]
)
def test_a_rank_without_proof_is_waited_for_and_then_degraded(second: dict[str, Any]) -> None:
    assert traced({"0": PROVED, "1": second}, 8, draft=True).verdict == "loading"
    verdict = traced({"0": PROVED, "1": second}, 17, draft=True)
    assert verdict.verdict == "degraded"
    assert verdict.primary.id == "patch.not_active"
    assert verdict.primary.rank == "TP1"
    assert verdict.stage == "serving"


def test_without_a_draft_no_draft_record_is_asked_for() -> None:
    half = {"proof": True, "records": {"target": 3}}
    assert traced({"0": half, "1": half}, 7.1, draft=False).verdict == "ready"


def test_the_same_observations_give_the_same_verdict_again() -> None:
    first, again = serving(), serving()
    assert first.at(7).to_json() == again.at(7).to_json()
    assert first.at(7).to_json() == first.at(7).to_json()


def test_the_hint_that_sglang_prints_is_ruled_out() -> None:
    log = (REAL.parent / "dev" / "d031-illegal-capture" / "server.log").read_bytes().decode()
    verdict = Wait().start().alive(0.1, 1, 2).log(5, log).see(6, "exit", code=-9, signal="SIGKILL").at(6.4)
    assert verdict.primary.category == "kernel.illegal_memory"
    assert any("mem-fraction-static" in text for text in verdict.ruled_out)


def test_gpu_memory_stands_beside_a_finding_about_it() -> None:
    log = (REAL.parent / "dev" / "d002-kv-none-tp8" / "server.log").read_bytes().decode()
    gpus = [{"index": 0, "used_mb": 70000, "total_mb": 81920, "util": 0}]
    wait = Wait().start().alive(0.1, 1, 2).see(4, "gpu", gpus=gpus).log(5, log)
    verdict = wait.see(6, "exit", code=-9, signal="SIGKILL").at(6.4)
    assert verdict.primary.category == "memory.kv_pool"
    assert verdict.primary.evidence[-1].source == "gpu"


def test_the_view_names_the_stage_of_every_rank() -> None:
    head = real_log("dsv2_tp2").split("KV Cache is allocated")[0].rpartition("\n")[0] + "\n"
    view = Wait().start().alive(0.1, 1, 2, 3, 4).log(1, head).http(1, "health", "refused", ours=None).judge.view(4)
    assert {(r.rank, r.stage) for r in view.ranks} == {("TP0", "post-load"), ("TP1", "post-load")}
    assert view.http == "refused"
    assert view.alive == 4
    assert view.last_line_age_s == 3


def test_a_bar_that_rewrites_its_line_shows_progress_before_the_line_ends() -> None:
    wait = Wait().start().log(1, "[2026-12-01 01:23:06 TP0] Load weight begin. avail mem=70 GB\n")
    view = wait.log(
        2, "\rLoading safetensors checkpoint shards:  50% Completed | 32/64 [00:10<00:10,  3.2it/s]"
    ).judge.view(3)
    assert view.ranks[0].progress == 0.5
    assert view.ranks[0].detail == "32/64"


def test_an_estimate_comes_from_former_runs_before_the_bar() -> None:
    text = "[2026-12-01 01:23:06 TP0] Load weight begin. avail mem=70 GB\n"
    bar = "\rLoading safetensors checkpoint shards:  50% Completed | 32/64 [00:10<00:10,  3.2it/s]\n"
    former = {"load-weights": (90.0, 100.0, 300.0), "load-weights/draft": (5.0,), "warmup": (10.0, 20.0)}
    view = Wait(former=former).start().log(10, text + bar).judge.view(40)
    assert (view.timeline[-1].eta_s, view.timeline[-1].eta_from) == (70, "former-runs")
    assert view.start_left_s == 70 + 5 + 15
    view = Wait().start().log(10, text + bar).judge.view(40)
    assert (view.timeline[-1].eta_s, view.timeline[-1].eta_from) == (10, "bar")
    assert view.start_left_s is None


def test_the_draft_has_an_estimate_of_its_own() -> None:
    begin = "[2026-12-01 01:23:06 TP0] Load weight begin. avail mem=70 GB\n"
    end = "[2026-12-01 01:23:16 TP0] Load weight end. elapsed=10 s\n"
    wait = Wait(former={"load-weights": (100.0,), "load-weights/draft": (8.0,)}).start().log(10, begin)
    span = wait.log(20, end + begin).judge.view(23).timeline[-1]
    assert (span.stage, span.draft, span.eta_s) == ("load-weights", True, 5)


BEGAN = 1764552180.0  # 2025-12-01 01:23:00 UTC
STARTS = {
    "of this time zone": (BEGAN, 6.0),
    "of a time zone 5:45 ahead": (BEGAN - 5.75 * 3600, 6.0),
    "within the second of the first line": (BEGAN + 6.7, None),
    "minutes before the first line": (BEGAN - 700, 706.0),
    "unknown": (None, None),
}


@pytest.mark.parametrize(("started", "imported_s"), STARTS.values(), ids=STARTS.keys())
def test_the_timeline_begins_with_the_imports_that_no_line_tells(
    started: float | None, imported_s: float | None
) -> None:
    text = "[2025-12-01 01:23:06 TP0] Load weight begin. avail mem=70 GB\n"
    wait = Wait().start(started_wall=started, wall=started)
    before = [(span.stage, span.start_s, span.end_s) for span in wait.judge.view(1).timeline]
    assert before == ([] if started is None else [("import", 0.0, None)])
    first, *rest = [(span.stage, span.start_s, span.end_s) for span in wait.log(2, text).judge.view(3).timeline]
    if imported_s is None:
        assert (first, rest) == (("load-weights", 0.0, None), [])
    else:
        assert [first, *rest] == [("import", 0.0, imported_s), ("load-weights", imported_s, None)]


def test_imports_have_an_estimate_too() -> None:
    view = Wait(former={"import": (10.0,), "load-weights": (60.0,)}).start(wall=1003.0).judge.view(4)
    assert (view.timeline[-1].eta_s, view.start_left_s) == (10 - 3 - 4, 3 + 60)


def test_a_wait_that_comes_later_reckons_from_the_times_in_the_log() -> None:
    text = "[2026-12-01 01:23:06 TP0] Load weight begin. avail mem=70 GB\n[2026-12-01 01:24:06 TP0] x\n"
    span = Wait(former={"load-weights": (100.0,)}).start().log(0, text).judge.view(15).timeline[-1]
    assert span.eta_s == 100 - 60 - 15


def test_a_traceback_that_nobody_died_of_does_not_end_the_wait() -> None:
    harmless = 'Traceback (most recent call last):\n  File "/x.py", line 1, in f\n    g()\nValueError: only printed\n'
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).log(1, harmless)
    assert wait.says(5) == "loading"
    wait.log(6, real_log("dsv2_tp2")).http(7, "health", "200").http(8, "generate", "200")
    assert wait.says(8.1) == "ready"


def test_a_truncated_log_is_noted_and_counts_from_one_again() -> None:
    wait = (
        Wait().start().log(1, "one\ntwo\n").see(2, "log-reset", reason="truncated").log(3, real_log("err_trunc_shard"))
    )
    verdict = wait.at(4)
    assert verdict.primary.evidence[0].line == 90
    assert any("truncated" in note for note in verdict.notes)
