"""Launch, replace, restart, stop, and what one sees of it meanwhile: real `fab` processes, the stand-in as server."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from sglfab.model import STAGES
from sglfab.testing.fab import ended
from sglfab.testing.place import gone

CONTRACT = {
    "schema", "verdict", "host", "run", "profile", "url", "sglang_version", "stage", "draft", "elapsed_s", "exit",
    "primary", "findings", "consequences", "neighbours", "ruled_out", "gaps", "notes", "timeline",
}  # fmt: skip
SPAN = {"stage", "draft", "start_s", "end_s", "progress", "eta_s", "eta_from"}


# --- a server that only is looked at ----------------------------------------------------------------------------------


def test_a_launch_ends_ready_with_every_key_of_the_contract(served):
    told = served.launched.json
    assert set(told) == CONTRACT
    assert (told["schema"], told["verdict"], told["host"], told["profile"]) == (1, "ready", "local", "standin")
    assert (told["stage"], told["primary"], told["exit"]) == ("serving", None, None)
    assert told["url"] == f"http://127.0.0.1:{served.place.host.port}"
    assert told["sglang_version"] == "0.5.23"
    assert all(set(span) == SPAN for span in told["timeline"])
    assert {span["stage"] for span in told["timeline"]} <= set(STAGES)
    assert "load-weights" in {span["stage"] for span in told["timeline"]}


def test_progress_goes_to_stderr_and_not_into_the_answer(served):
    assert "preflight done" in served.launched.err
    assert "start done" in served.launched.err


def test_status_names_the_run_and_its_health(served):
    done = served.place.fab("status", "--json")
    (row,) = done.json["runs"]
    assert done.code == 0
    assert (row["run"], row["health"], row["port"]) == (served.run, "200", served.place.host.port)
    assert row["operator"] == "tester"


def test_logs_shows_as_many_last_lines_as_asked(served):
    wanted = (served.place.folder(served.run) / "server.log").read_text().splitlines()
    shown = served.place.fab("logs", "--lines", "5").out.splitlines()
    assert len(shown) == 5
    assert set(shown) <= set(wanted)


def test_ctrl_c_ends_following_a_log_without_a_word(served):
    following = served.place.fab.start("logs", "-f", "--lines", "1")
    assert following.stdout.readline()
    os.killpg(following.pid, signal.SIGINT)
    done = ended(following)
    assert (done.code, done.err) == (130, "")


def test_waiting_again_is_ready_again_and_leaves_the_verdict_beside_the_run(served):
    done = served.place.fab("wait-health", "--run", served.run, "--json")
    assert (done.code, done.json["verdict"]) == (0, "ready")
    kept = served.place.runs()[served.run]["verdict"]
    assert kept["verdict"] == "ready"
    assert kept["primary"] is None


def test_a_live_run_is_never_pruned(served):
    done = served.place.fab("runs", "--prune", "--keep", "0", "--json")
    assert (done.code, done.json["removed"]) == (0, [])
    assert served.place.folder(served.run).is_dir()


# --- servers that come and go -----------------------------------------------------------------------------------------


def test_no_wait_answers_loading_at_once_and_a_second_launch_replaces_the_server(place):
    started = place.fab("launch", "--profile", "standin", "--no-wait", "--json")
    assert (started.code, started.json["verdict"]) == (0, "loading")
    assert set(started.json) == CONTRACT
    first = started.json["run"]
    pid = place.pid(first)
    second = place.launch()
    assert place.live == [second]
    assert gone(pid)
    assert place.runs()[first]["exit"]["code"] in (0, -15)  # stopped before or after it took SIGTERM as SGLang does


def test_restart_repeats_the_recorded_plan_and_render_takes_the_changed_profile(place):
    first = place.launch()
    place.host.write_profile(args={"max-running-requests": 3})
    assert place.fab("restart", "--no-wait").code == 0
    again = place.fab("restart", "--render", "--set", "args.context-length=512", "--no-wait", "--json")
    assert again.code == 0, again
    runs = place.runs()
    newest, repeated = runs[again.json["run"]], next(r for i, r in runs.items() if i not in (first, again.json["run"]))
    assert repeated["plan"]["argv"] == runs[first]["plan"]["argv"]
    assert repeated["plan"]["env"] == runs[first]["plan"]["env"]
    argv = newest["plan"]["argv"]
    assert argv[argv.index("--max-running-requests") + 1] == "3"
    assert argv[argv.index("--context-length") + 1] == "512"
    assert place.live == [again.json["run"]]


def test_a_dead_run_is_restarted_by_name_and_set_alone_is_refused_with_it_untouched(place):
    run = place.launch()
    refused = place.fab("restart", "--set", "args.tp-size=1", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "set-needs-render")
    pid = place.pid(run)
    assert not gone(pid)
    stopped = place.fab("stop", "--json")
    assert (stopped.code, stopped.json["stopped"], stopped.json["exit"]["code"]) == (0, True, 0)
    assert gone(pid)
    assert place.fab("restart", "--run", run, "--no-wait", "--json").json["verdict"] == "loading"


def test_stop_with_nothing_running_is_0(place):
    done = place.fab("stop", "--json")
    assert (done.code, done.json["was_running"]) == (0, False)


def test_stop_by_name_ends_the_children_of_a_server_whose_main_process_is_gone(place):
    place.host.write_profile(script={"linger_s": 60})
    run = place.launch()
    assert place.fab("wait-health", "--run", run).code == 0
    main = place.pid(run)
    children = [int(pid) for pid in _children(main)]
    assert len(children) == 3
    os.kill(main, signal.SIGKILL)
    done = place.fab("stop", "--run", run, "--json")
    assert (done.code, done.json["was_running"], done.json["stopped"]) == (0, True, True)
    assert all(gone(pid) for pid in children)


def _children(pid):
    return [c for task in Path(f"/proc/{pid}/task").glob("*/children") for c in task.read_text().split()]


def test_a_launch_removes_the_oldest_runs_beyond_the_cap_and_prune_keeps_as_told(place):
    for number in range(25):
        _record_dead_run(place, number)
    run = place.launch()
    assert len(place.runs()) == 20
    done = place.fab("runs", "--prune", "--keep", "3", "--json")
    assert len(done.json["removed"]) == 17
    assert list(place.runs()) == ["old-20260101-000023-0000", "old-20260101-000024-0000", run]
    assert place.live == [run]


def _record_dead_run(place, number):
    folder = place.folder(f"old-20260101-0000{number:02d}-0000")
    folder.mkdir(parents=True)
    shape = {
        "id": folder.name, "profile": "old", "plan": {"port": 1}, "operator": "x", "laptop": "x", "boot_id": "another",
        "created": f"2026-01-01T00:00:{number:02d}+0000", "created_wall": 1767225600.0 + number,
        "main": {"pid": 1, "start": 1}, "keeper": None, "adopted": False,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(shape))
    old = time.time() - 3600
    os.utime(folder, (old, old))


def test_pruning_drops_programs_that_nobody_uses(place):
    programs = place.host.state_dir / "bin"
    programs.mkdir(parents=True, mode=0o700)
    for number in range(6):
        (programs / f"hostside-{number:064x}.pyz").write_text("old")
        os.utime(programs / f"hostside-{number:064x}.pyz", (number, number))
    kept = place.fab("runs", "--prune", "--dry-run")
    assert (kept.code, len(list(programs.iterdir()))) == (0, 7), kept
    done = place.fab("runs", "--prune")
    assert (done.code, len(list(programs.iterdir()))) == (0, 4), done
