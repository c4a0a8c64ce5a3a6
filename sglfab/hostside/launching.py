"""`launch`: make the run folder, start the keeper, come back when it says that the server runs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from sglfab.hostside.cgroups import oom_counter
from sglfab.hostside.failure import HostError
from sglfab.hostside.family import members
from sglfab.hostside.logind import scope_prefix
from sglfab.hostside.processes import boot_id, send
from sglfab.hostside.programs import drop_old
from sglfab.hostside.runs import describe, point_latest, prune_runs, run_dir, server_of
from sglfab.hostside.state import FULL_DISK, disk_full, private_dir, state_dir, write_atomic, write_json

Json = Dict[str, Any]
_ANSWER_S = 30.0
# What a server of ours that started us may have left in the environment.
_OWN = ("SGLFAB_TRACE_DIR", "SGLFAB_PROBE", "SGLFAB_PLUGIN", "SGLFAB_SECRETS_FD")
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from sglfab.hostside.keeper import main; sys.exit(main())"


def launch(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """Start the plan's server; {"run", "warnings", "removed"} once the keeper reported main's pid and start time.

    Raises HostError disk-full, run-exists, secret-in-plan, plugin-path, launch-failed;
    after any of them nothing of the run is left.
    """
    secrets: Dict[str, str] = request.get("secrets") or {}
    _refuse_visible(secrets, request)
    umask = os.umask(0o077)
    state = state_dir(request)
    folder = _make_folder(state, request["run_id"])
    try:
        probe = _probe_file(state, request.get("probe"))
        plugin = _plugin_folder(state, request.get("plugin"))
        run = _run(request, folder)
        _write_files(folder, request, run)
        warnings = _start(_order(run, folder, probe=probe, plugin=plugin, secrets=secrets, umask=umask))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _explain(error, folder) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.umask(umask)
    return _finish(state, folder, request, warnings)


def _finish(state: str, folder: str, request: Json, warnings: List[str]) -> Json:
    """The server runs: from here on a failure is only a warning."""
    removed: List[str] = []
    try:
        point_latest(state, request["profile"], folder)
        if request.get("keep_runs"):
            removed = prune_runs(state, keep=int(request["keep_runs"]))["removed"]
        drop_old(sys.argv[0])
    except OSError as error:
        warnings.append("the run is recorded, but: %s" % error)
    return {"run": describe(folder), "warnings": warnings, "removed": removed}


def _refuse_visible(secrets: Dict[str, str], request: Json) -> None:
    """A secret's value must not stand in anything that we write."""
    text = json.dumps([request.get(k) for k in ("plan", "script", "starter", "patch_manifest", "run_id")])
    for target, value in secrets.items():
        if len(value) >= 8 and json.dumps(value)[1:-1] in text:
            what = "the value of the secret %s also stands in the plan, so it would be written to the host" % target
            raise HostError(
                "secret-in-plan", what, where="secrets." + target, try_="take it out of args: and env: of the profile"
            )


def _make_folder(state: str, run_id: str) -> str:
    folder = run_dir(state, run_id)
    private_dir(os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError as error:
        raise HostError("run-exists", "a run of this id exists already", where=folder, try_="launch again") from error
    except OSError as error:
        raise _explain(error, folder) from error
    return folder


def _explain(error: OSError, folder: str) -> HostError:
    if error.errno in FULL_DISK:
        return disk_full(folder)
    what = "the server could not be started: %s" % (error.strerror or error)
    where = str(error.filename or folder)
    return HostError("launch-failed", what, where=where, try_="ls -ld " + where, exit_code=1)


def _probe_file(state: str, probe: Optional[Json]) -> Optional[str]:
    """Put the probe beside the runs, named by its hash; the patched files load it from there."""
    if not probe:
        return None
    path = os.path.join(private_dir(os.path.join(state, "probes")), "%s.py" % probe["sha"])
    write_atomic(path, probe["source"].encode("utf-8"))
    return path


def _plugin_folder(state: str, plugin: Optional[Json]) -> Optional[str]:
    """Put the plugin's files into a folder named by their hash; only the server of this launch gets it on its path."""
    if not plugin:
        return None
    folder = os.path.join(state, "plugins", plugin["sha"])
    if os.pathsep in folder:
        what = "a folder with %r in its name cannot stand in PYTHONPATH" % os.pathsep
        raise HostError("plugin-path", what, where=folder, try_="another SGLFAB_STATE_DIR, or --via file")
    for name, text in sorted(plugin["files"].items()):
        path = os.path.join(folder, name)
        private_dir(os.path.dirname(path))
        write_atomic(path, text.encode("utf-8"))
    return folder


def _write_files(folder: str, request: Json, run: Json) -> None:
    write_atomic(os.path.join(folder, "launch.sh"), request["script"].encode("utf-8", "surrogateescape"), 0o700)
    if request.get("starter"):
        write_atomic(os.path.join(folder, "start.py"), request["starter"].encode("utf-8", "surrogateescape"))
    os.close(os.open(os.path.join(folder, "server.log"), os.O_WRONLY | os.O_CREAT, 0o600))
    if request.get("probe"):
        os.mkdir(os.path.join(folder, "trace"), 0o700)
    write_json(os.path.join(folder, "run.json"), run)


def _run(request: Json, folder: str) -> Json:
    now = time.time()
    kept = {k: request.get(k) for k in ("profile", "plan", "operator", "laptop", "sglang_version", "patch_manifest")}
    return {
        "id": request["run_id"],
        **kept,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(now)),
        "created_wall": now,
        "boot_id": boot_id(),
        "main": None,
        "keeper": None,
        "adopted": False,
        "log": os.path.join(folder, "server.log"),
        "secret_targets": sorted(request.get("secrets") or {}),
        "oom": oom_counter(os.getpid()),
    }


def _order(
    run: Json, folder: str, *, probe: Optional[str], plugin: Optional[str], secrets: Dict[str, str], umask: int
) -> Json:
    env = {k: v for k, v in os.environ.items() if k not in _OWN}
    if probe:
        env.update(SGLFAB_TRACE_DIR=os.path.join(folder, "trace"), SGLFAB_PROBE=probe)
    if plugin:
        env.update(SGLFAB_PLUGIN=plugin)
    env.update({k[len("env.") :]: v for k, v in secrets.items() if k.startswith("env.")})
    return {
        "dir": folder,
        "run": run,
        "script": os.path.join(folder, "launch.sh"),
        "env": env,
        "secrets": {k: v for k, v in secrets.items() if k.startswith("args.")},
        "umask": umask,
    }


def _start(order: Json) -> List[str]:
    """Start the keeper, where systemd would kill it at logout in a scope of its own. Returns warnings."""
    prefix, warnings = scope_prefix(order["run"]["id"])
    answer = _keeper(prefix, order)
    if answer is None and prefix:
        warnings.append("systemd-run --user --scope did not work: this server may be killed when you log out")
        answer = _keeper([], order)
    if answer is None:
        _sweep(order["dir"])
        what = "the keeper ended without an answer"
        raise HostError("launch-failed", what, where=_last_words(order["dir"]), try_="report this", exit_code=1)
    if "errno" in answer:
        raise OSError(answer["errno"], answer["what"], order["dir"])
    return warnings


def _sweep(folder: str) -> None:
    """Nothing may be left of a failed launch: a keeper that died after its fork may have left a server."""
    run = describe(folder)
    server = server_of(run) if run else None
    for proc in members(server).values() if server else ():
        send(proc.ident, signal.SIGKILL)


def _keeper(prefix: List[str], order: Json) -> Optional[Json]:
    """Run one keeper and wait for its answer; None where it ended without one."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the bundle or the checkout
    argv = [*prefix, sys.executable, "-I", "-S", "-c", _BOOT, root, "sglfab-keeper", order["run"]["id"]]
    with open(os.path.join(order["dir"], "keeper.log"), "ab") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            pass_fds=_in_memory(root),
        )
    line = _converse(process, json.dumps(order).encode("ascii"))
    if not line.endswith(b"\n"):
        process.kill()
        process.wait()
        return None
    process.returncode = 0  # it outlives us on purpose
    answer: Json = json.loads(line.decode("ascii"))
    return answer


def _in_memory(root: str) -> Tuple[int, ...]:
    """The descriptor of a bundle that found no place on disk (bootstrap.py: /proc/self/fd/N)."""
    name = root[len("/proc/self/fd/") :] if root.startswith("/proc/self/fd/") else ""
    return (int(name),) if name.isdigit() else ()


def _converse(process: "subprocess.Popen[bytes]", order: bytes) -> bytes:
    """Give the order; the answer's line, or b"" where none came in time."""
    if process.stdin is None or process.stdout is None:
        return b""
    with contextlib.suppress(BrokenPipeError), process.stdin:  # it ended too early; the missing answer says so
        process.stdin.write(order)
    with process.stdout:
        ready = select.select([process.stdout], [], [], _ANSWER_S)[0]
        return process.stdout.readline() if ready else b""


def _last_words(folder: str) -> str:
    try:
        with open(os.path.join(folder, "keeper.log"), encoding="utf-8", errors="replace") as file:
            return " ".join(file.read()[-300:].split())
    except OSError:
        return folder
