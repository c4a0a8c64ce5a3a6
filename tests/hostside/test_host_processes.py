"""Reading /proc, and what a title says about a process's part."""

import os

import pytest

from sglfab.hostside.cgroups import oom_kills
from sglfab.hostside.family import rank_of, role_of
from sglfab.hostside.logind import setting
from sglfab.hostside.processes import Ident, living, look, parse_stat, send, shown, shown_arguments, started_wall

TAIL = "S 1 2 3 34816 4 5 6 7 8 9 150 50 12 13 20 0 1 0 4711 99999 256 18446744073709551615"

NAMES = [
    pytest.param("python", id="a plain name"),
    pytest.param("my prog", id="a space"),
    pytest.param("a) R 9 9 (b", id="parentheses that imitate fields"),
    pytest.param("", id="no name"),
    pytest.param(")", id="one closing parenthesis"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_stat_line_is_counted_from_its_last_parenthesis(name):
    proc = parse_stat(f"77 ({name}) {TAIL}")
    assert (proc.pid, proc.state, proc.ppid, proc.pgrp, proc.session, proc.start) == (77, "S", 1, 2, 3, 4711)
    assert proc.cpu_s == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))
    assert proc.rss_kb == 256 * os.sysconf("SC_PAGE_SIZE") // 1024


def test_a_zombie_is_gone_and_takes_no_signal(bystander, eventually):
    child = bystander(["true"])
    eventually(lambda: look(child.pid).state == "Z")
    ident = look(child.pid).ident
    assert living(ident) is None
    assert send(ident, 0) is False


def test_only_the_very_process_is_signalled(bystander, alive):
    child = bystander(["sleep", "3600"])
    start = look(child.pid).start
    assert send(Ident(child.pid, start - 1), 9) is False
    assert alive(child.pid)
    assert send(Ident(child.pid, start), 9) is True
    assert child.wait(10) == -9


def test_the_start_time_is_right_to_a_tenth_of_a_second(bystander):
    import time

    before = time.time()
    child = bystander(["sleep", "3600"])
    assert before - 0.1 < started_wall(look(child.pid)) < time.time() + 0.1


ROLES = [
    ("python -m sglang.launch_server --port 1", "other"),
    ("sglang::scheduler_TP0", "scheduler"),
    ("sglang::scheduler", "scheduler"),
    ("sglang::scheduler_DP0_PP1_TP3_EP3", "scheduler"),
    ("sglang::detokenizer", "detokenizer"),
    ("sglang::detokenizer_router", "other"),
    ("sglang::tokenizer_worker:77", "other"),
    ("sglang::data_parallel_controller", "dp-controller"),
    ("/usr/local/cuda/bin/nvcc -c x.cu", "compiler"),
    ("cicc --c++17", "compiler"),
    ("/usr/libexec/gcc/x86_64-linux-gnu/12/cc1plus -quiet", "compiler"),
    ("x86_64-linux-gnu-g++-12 -c a.cpp", "compiler"),
    ("ninja -v -j 8", "compiler"),
    ("ptxas -arch=sm_90", "compiler"),
    ("python -c from multiprocessing.resource_tracker import main;main(6)", "other"),
    ("vim sglang::scheduler_TP0", "other"),
    ("", "other"),
    ("[kworker/0:1]", "other"),
]


@pytest.mark.parametrize(("title", "role"), ROLES, ids=[title or "no title" for title, _ in ROLES])
def test_the_role_in_a_title(title, role):
    assert role_of(7, title, main=1, parent_title="python -m sglang.launch_server") == role
    assert role_of(1, title, main=1, parent_title="bash") == "main"


def test_a_schedulers_fork_before_its_exec_is_no_scheduler():
    """Else every subprocess that a scheduler starts would be a scheduler that died at once."""
    assert role_of(7, "sglang::scheduler_TP0", main=1, parent_title="sglang::scheduler_TP0") == "other"


@pytest.mark.parametrize(
    ("title", "rank"),
    [
        ("sglang::scheduler_TP3", "TP3"),
        ("sglang::scheduler_DP0_TP3", "DP0 TP3"),
        ("sglang::scheduler", None),
        ("x_TP3", None),
    ],
)
def test_the_rank_in_a_title(title, rank):
    assert rank_of(title) == rank


SHOWN = [
    ("x --api-key abc --port 1", "x --api-key *** --port 1"),
    ("x --api-key=abc", "x --api-key=***"),
    ("x --hf-token abc", "x --hf-token ***"),
    ("x --admin-api-key abc", "x --admin-api-key ***"),
    ("x --max-total-tokens 4096", "x --max-total-tokens 4096"),
    ("x --speculative-num-draft-tokens 4", "x --speculative-num-draft-tokens 4"),
    ("x --tokenizer-path /m", "x --tokenizer-path /m"),
    ("x --skip-tokenizer-init --port 1", "x --skip-tokenizer-init --port 1"),
    ("x --speculative-token-map /m", "x --speculative-token-map /m"),
    ("x --ssl-keyfile /etc/k.pem", "x --ssl-keyfile /etc/k.pem"),
    ("x --ssl-keyfile-password abc", "x --ssl-keyfile-password ***"),
    ("keyboard -k 1", "keyboard -k 1"),
]


@pytest.mark.parametrize(("title", "seen"), SHOWN, ids=[title for title, _ in SHOWN])
def test_a_command_line_is_shown_without_its_secrets(title, seen):
    assert shown(title) == seen
    assert " ".join(shown_arguments(title.split(" "))) == seen


def test_a_secret_with_spaces_is_one_argument():
    assert shown_arguments(["x", "--api-key", "two words", "y"]) == ["x", "--api-key", "***", "y"]


def test_the_last_drop_in_of_logind_counts(tmp_path):
    lib, etc = tmp_path / "lib", tmp_path / "etc"
    for folder, name, text in (
        (lib, "logind.conf", "[Login]\nKillUserProcesses=yes\n"),
        (etc, "logind.conf", "[Login]\n#KillUserProcesses=no\n"),
        (etc, "logind.conf.d/50-a.conf", "[Login]\nKillUserProcesses = no\n"),
        (lib, "logind.conf.d/90-b.conf", "[Login]\nIdleAction=ignore\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert setting("KillUserProcesses", (str(lib), str(etc))) == "no"
    assert setting("IdleAction", (str(lib), str(etc))) == "ignore"
    assert setting("HandleLidSwitch", (str(lib), str(etc))) is None


COUNTERS = [
    pytest.param("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\n", 2, id="memory.events of cgroup v2"),
    pytest.param("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5, id="memory.oom_control of v1"),
    pytest.param("oom_kill_disable 0\nunder_oom 0\n", None, id="a kernel before 4.13 counts none"),
    pytest.param("", None, id="an empty file"),
]


@pytest.mark.parametrize(("text", "count"), COUNTERS)
def test_the_kernels_count_of_memory_kills(tmp_path, text, count):
    (tmp_path / "counter").write_text(text)
    assert oom_kills(str(tmp_path / "counter")) == count


def test_no_counter_file(tmp_path):
    assert oom_kills(str(tmp_path / "none")) is None
