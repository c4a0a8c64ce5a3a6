"""A launch makes a whole run or nothing, promptly, and shows no secret."""

import json
import os
import re
import stat
import subprocess
import time
from pathlib import Path

import pytest

SECRET = "hunter2-hunter2"


def dumped(run, eventually, path):
    eventually(path.exists)
    return json.loads(path.read_text())


def test_the_run_is_recorded_with_private_files(host):
    run = host.launch({"port": None}, patch_manifest={"set": "x"})
    folder = Path(run["dir"])
    modes = {
        name: stat.S_IMODE(os.stat(folder / name).st_mode) for name in ("launch.sh", "server.log", "run.json", ".")
    }
    assert modes == {"launch.sh": 0o700, "server.log": 0o600, "run.json": 0o600, ".": 0o700}
    recorded = json.loads((folder / "run.json").read_text())
    assert {k: recorded[k] for k in ("id", "profile", "operator", "laptop", "sglang_version", "adopted")} == {
        "id": "demo-1",
        "profile": "demo",
        "operator": "ann",
        "laptop": "lap",
        "sglang_version": "0.5.23",
        "adopted": False,
    }
    assert recorded["main"] == run["main"]
    assert recorded["patch_manifest"] == {"set": "x"}
    assert run["alive"] is True
    assert run["exit"] is None
    assert (host.state / "latest" / "demo").resolve() == folder


def test_the_server_starts_as_if_typed_at_a_fresh_shell(host, eventually, tmp_path):
    run = host.launch({"dump": str(tmp_path / "dump")})
    seen = dumped(run, eventually, tmp_path / "dump")
    assert seen["fds"] == {"0": "/dev/null", "1": run["dir"] + "/server.log", "2": run["dir"] + "/server.log"}
    assert seen["session"] == run["main"]["pid"]
    assert seen["ignored"] == []
    assert seen["umask"] == current_umask(), "the server's caches must stay readable for the team"


def current_umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_secrets_reach_the_server_and_nothing_else(host, eventually, tmp_path):
    secrets = {"env.HF_TOKEN": SECRET + "-env", "args.api-key": SECRET + "-arg"}
    run = host.launch({"dump": str(tmp_path / "dump")}, secrets=secrets, starter="print('start.py')\n")
    seen = dumped(run, eventually, tmp_path / "dump")
    assert seen["env"]["HF_TOKEN"] == SECRET + "-env"
    assert json.loads(seen["secrets"]) == {"args.api-key": SECRET + "-arg"}
    assert SECRET not in json.dumps(seen["env"]).replace(SECRET + "-env", "")
    for path in Path(run["dir"]).rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text(), path
    for pid in (run["main"]["pid"], run["keeper"]["pid"]):
        assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text()
    assert SECRET not in Path(f"/proc/{run['keeper']['pid']}/environ").read_text()


def test_only_a_launch_with_a_probe_traces(host, eventually, tmp_path):
    host.env.update(SGLFAB_TRACE_DIR="/left/over", SGLFAB_PROBE="/left/over.py", SGLFAB_SECRETS_FD="7")
    plain = dumped(host.launch({"dump": str(tmp_path / "a")}, "plain-1"), eventually, tmp_path / "a")
    assert [name for name in plain["env"] if name in ("SGLFAB_TRACE_DIR", "SGLFAB_PROBE", "SGLFAB_SECRETS_FD")] == []
    run = host.launch({"dump": str(tmp_path / "b")}, "traced-1", probe={"sha": "abc", "source": "# probe ü\n"})
    traced = dumped(run, eventually, tmp_path / "b")
    assert traced["env"]["SGLFAB_TRACE_DIR"] == run["dir"] + "/trace"
    assert os.path.isdir(run["dir"] + "/trace")
    assert Path(traced["env"]["SGLFAB_PROBE"]).read_text() == "# probe ü\n"
    assert traced["env"]["SGLFAB_PROBE"] == str(host.state / "probes" / "abc.py")


PLUGIN = {"sha": "def", "files": {"m.py": "# ü\n", "m-1.dist-info/METADATA": "Name: m\n"}}


def test_only_a_launch_with_a_plugin_is_told_where_it_lies(host, eventually, tmp_path):
    host.env["SGLFAB_PLUGIN"] = "/of/a/server/that/started/us"
    bare = dumped(host.launch({"dump": str(tmp_path / "a")}, "bare-1"), eventually, tmp_path / "a")
    told = dumped(host.launch({"dump": str(tmp_path / "b")}, "plugin-1", plugin=PLUGIN), eventually, tmp_path / "b")
    assert "SGLFAB_PLUGIN" not in bare["env"]
    folder = Path(told["env"]["SGLFAB_PLUGIN"])
    assert folder == host.state / "plugins" / "def"
    assert {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()} == PLUGIN["files"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_plugin_that_pythonpath_cannot_name_is_refused_and_leaves_no_run(host, tmp_path):
    host.state = tmp_path / "a:b"
    _, error, _ = host.call("launch", **host.request({}, plugin=PLUGIN))
    assert (error["code"], error["exit"]) == ("plugin-path", 2)
    assert list((host.state / "runs").iterdir()) == []


def test_the_launch_comes_back_at_once(host):
    began = time.monotonic()
    host.launch({})
    assert time.monotonic() - began < 5, "the reply must not wait for the server's pipes"


REFUSED = [
    pytest.param({"run_id": "../../etc"}, "run-id-invalid", id="a run id that leaves the folder"),
    pytest.param({"run_id": ""}, "run-id-invalid", id="an empty run id"),
    pytest.param(
        {"secrets": {"args.api-key": SECRET}, "script": f"echo {SECRET}"}, "secret-in-plan", id="a secret in the script"
    ),
    pytest.param(
        {"secrets": {"env.X": 'quo"ted-secret'}, "plan": {"argv": ['quo"ted-secret']}},
        "secret-in-plan",
        id="a secret with a quote in the plan",
    ),
    pytest.param({"script": "#!/no/such/interpreter\n"}, "launch-failed", id="a script that cannot be executed"),
]


@pytest.mark.parametrize(("change", "code"), REFUSED)
def test_a_refused_launch_leaves_nothing(host, change, code):
    reply, error, _ = host.call("launch", **{**host.request({}), **change})
    assert reply is None
    assert error["code"] == code
    assert SECRET not in json.dumps(error)
    assert not (host.state / "runs").exists() or os.listdir(host.state / "runs") == []


def test_a_run_id_is_used_once(host):
    host.launch({})
    _, error, _ = host.call("launch", **host.request({}))
    assert error["code"] == "run-exists"
    assert host.ok("runs", profile=None)["runs"][0]["alive"], "the first server is untouched"


def test_short_values_are_no_reason_to_refuse(host):
    """A secret `8000` also stands in the plan as the port: too short to be told apart."""
    assert host.launch({"port": None}, secrets={"env.X": "0.0"}, plan={"http_host": "0.0.0.0"})["alive"]


@pytest.mark.parametrize("kb", [4, 8, 12, 16, 20, 24])
def test_a_full_disk_is_an_error_and_leaves_no_half_run(host, kb):
    """Each size breaks another write: launch.sh, server.log, run.json, the keeper's own."""
    host.move_to_small_disk(kb)
    reply, error, _ = host.call("launch", **host.request({}))
    if reply is None:
        assert error["code"] == "disk-full"
        assert error["exit"] == 2
        runs = host.state / "runs"
        assert not runs.exists() or os.listdir(runs) == []
        assert servers_of(host) == []
    else:
        host.launched.append("demo-1")
        assert reply["run"]["alive"]
        assert kb > 12, "a run folder with its reserve takes more than that"


def test_a_file_size_limit_is_a_full_disk(host):
    host.prefix = ("/bin/sh", "-c", 'ulimit -f 1; exec "$@"', "sh")
    reply, error, _ = host.call("launch", **host.request({}, plan={"padding": "x" * 5000}))
    assert (reply, error["code"]) == (None, "disk-full")
    assert os.listdir(host.state / "runs") == []
    assert servers_of(host) == []


def servers_of(host):
    """Processes that name the state folder of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", entry.name) and int(entry.name) != os.getpid():
            try:
                if str(host.state).encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def test_the_cap_removes_the_oldest_dead_runs_only(host, exit_status):
    alive = host.launch({}, "live-0")
    for number in range(4):
        exit_status(host.launch({"exit": {"code": 0}}, f"dead-{number}"))
    host.launch({}, "new-9", keep_runs=3)
    left = {run["id"] for run in host.ok("runs", profile=None)["runs"]}
    assert left == {alive["id"], "dead-3", "new-9"}


SYSTEMD = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system || exit 77
printf '[Login]\\nKillUserProcesses=yes\\nKillExcludeUsers=nobody\\n' > /run/systemd/logind.conf
exec "$@"
"""
# `systemd-run --user --scope --quiet --collect --unit=… ARGV`
SCOPES = [
    pytest.param(
        "exit 1",
        ["lingering is off", "did not work"],
        False,
        id="no user manager: a warning, and it starts all the same",
    ),
    pytest.param('shift 5; exec "$@"', ["lingering is off"], True, id="a scope that works holds the keeper"),
]


@pytest.mark.parametrize(("does", "warnings", "inside"), SCOPES)
def test_where_logout_kills_the_keeper_gets_a_scope(host, tmp_path, does, warnings, inside):
    """In a mount namespace of its own, this machine looks like one with systemd and KillUserProcesses=yes."""
    if subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, check=False
    ).returncode:
        pytest.skip("mount namespaces are not permitted here")
    fakes = tmp_path / "bin"
    fakes.mkdir()
    for name, text in (("systemd-run", f"echo $PPID $$ $@ > {tmp_path}/called; {does}"), ("loginctl", "exit 1")):
        (fakes / name).write_text("#!/bin/sh\n" + text + "\n")
        (fakes / name).chmod(0o755)
    host.env["PATH"] = f"{fakes}:{host.env['PATH']}"
    host.prefix = ("unshare", "-m", "sh", "-c", SYSTEMD, "sh")
    reply = host.ok("launch", **host.request({}))
    host.launched.append("demo-1")
    assert reply["run"]["alive"]
    assert [expected in given for expected, given in zip(warnings, reply["warnings"], strict=True)] == [True] * len(
        warnings
    )
    pid = int((tmp_path / "called").read_text().split()[1])
    assert (pid == reply["run"]["keeper"]["pid"]) is inside


def test_without_systemd_nothing_is_said_about_logout(host):
    if os.path.isdir("/run/systemd/system"):
        pytest.skip("this machine runs systemd")
    assert host.ok("launch", **host.request({"exit": {"code": 0}}))["warnings"] == []
