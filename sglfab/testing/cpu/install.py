"""Install the kit: an environment from pins, the stubs, the models, and ready.json last."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sglfab.testing.cpu import layout
from sglfab.testing.cpu.layout import CpuKit

DOWNLOAD_MB = 610
DISK_GB = 2.7
FREE_GB_NEEDED = 4
LOG_TAIL_LINES = 15


class KitUnavailableError(Exception):
    """SGLang cannot be installed on this machine; the text is the reason."""


class KitBrokenError(Exception):
    """The installation began and failed; the text says where it is written up."""


def install(kit: CpuKit) -> bool:
    """Make the kit whole. True: something was installed; False: it was ready. Raises the two errors above."""
    if layout.is_ready(kit):
        return False
    kit.root.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(kit):
        if layout.is_ready(kit):  # another process did it while this one waited
            return False
        kit.ready_file.unlink(missing_ok=True)
        install_venv(kit)
        copy_stubs(kit)
        make_models(kit)
        write_ready(kit)
    return True


def make_pristine(kit: CpuKit) -> tuple[str, ...]:
    """Put the wheel's own files back where a test, or an operator's patch, left others; tells which they were."""
    edited = layout.edited_files(kit)
    if edited:
        pip = [str(kit.python), "-m", "pip", "install", "--quiet", "--no-input", "--force-reinstall", "--no-deps"]
        sglang = f"sglang=={layout.pinned('sglang')}"
        step(f"{sglang} again, since it was edited: {', '.join(edited)}", [*pip, sglang], kit.root / "install.log")
    return edited


@contextmanager
def one_at_a_time(kit: CpuKit) -> Iterator[None]:
    """A lock on a file of the kit; the kernel gives it back when the holder dies."""
    with (kit.root / "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another installation into {kit.root} is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_venv(kit: CpuKit) -> None:
    if layout.whole_venv(kit):
        return
    build = torch_build()
    announce(kit, build)
    need_disk(kit.root)
    if kit.venv.exists():
        say(f"{kit.venv} is not what this version needs, or was left half made: making it again")
        shutil.rmtree(kit.venv)
    log = kit.root / "install.log"
    log.write_text("", encoding="utf-8")
    step("an empty environment", [sys.executable, "-m", "venv", str(kit.venv)], log)
    pip = [str(kit.python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    # torch comes with its dependencies, since a CUDA build brings packages of its own; all others exactly as pinned.
    step(f"torch {build}", [*pip, f"torch=={layout.pinned('torch')}"], log)
    rest = kit.root / "pins-without-torch.txt"
    rest.write_text("\n".join(p for p in layout.pins() if not p.startswith("torch==")) + "\n", encoding="utf-8")
    step(f"SGLang {layout.pinned('sglang')} and the rest", [*pip, "--no-deps", "-r", str(rest)], log)
    # torchvision's extension does not load beside a CPU torch, and nothing here needs its operators.
    (kit.site_packages / "torchvision" / "_meta_registrations.py").write_text("", encoding="utf-8")
    check_versions(kit)
    kit.venv_marker.write_text(layout.wanted()["pins"] + "\n", encoding="utf-8")


def torch_build() -> str:
    """The torch version that pip would take here; also finds out whether SGLang has a wheel for this machine."""
    wanted = [f"{name}=={layout.pinned(name)}" for name in ("sglang", "torch")]
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--no-deps"]
    found = subprocess.run([*pip, "--report", "-", *wanted], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise KitUnavailableError(f"{' and '.join(wanted)} not to be had for {machine()}: {last_error(found.stderr)}")
    packages = json.loads(found.stdout)["install"]
    return next(str(p["metadata"]["version"]) for p in packages if p["metadata"]["name"] == "torch")


def machine() -> str:
    libc = "-".join(platform.libc_ver()) or "no glibc"
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()} ({libc})"


def last_error(stderr: str) -> str:
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR")]
    return (errors or stderr.strip().splitlines() or ["pip said nothing"])[-1]


def announce(kit: CpuKit, build: str) -> None:
    say(f"SGLang {layout.pinned('sglang')} for the CPU goes into {kit.root}: once, about 2 minutes,")
    if "+cpu" in build:
        say(f"about {DOWNLOAD_MB} MB of downloads, {DISK_GB} GB on disk (torch {build})")
    else:
        say(f"about {DOWNLOAD_MB} MB of downloads AND several GB more: pip finds torch {build} here, a CUDA build.")
        say("A CPU build of torch that pip can see (pip's --find-links or index settings) would avoid that.")


def need_disk(root: Path) -> None:
    free_gb = shutil.disk_usage(root).free / 1e9
    if free_gb < FREE_GB_NEEDED:
        raise KitUnavailableError(
            f"{root} has {free_gb:.1f} GB free, the kit needs {FREE_GB_NEEDED} GB while it installs"
        )


def step(title: str, argv: Sequence[str], log: Path) -> None:
    """Run one command, its output into the log; the log's end is the error's text."""
    say(f"… {title}")
    with log.open("a", encoding="utf-8") as out:
        out.write("$ " + " ".join(argv) + "\n")
        out.flush()
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:])
        raise KitBrokenError(f"{title}: exit {done.returncode}; all of it in {log}\n{tail}")


def check_versions(kit: CpuKit) -> None:
    """Every pin is installed as pinned. A CUDA build of torch may bring more packages, never other versions."""
    pip = [str(kit.python), "-m", "pip", "freeze", "--disable-pip-version-check"]
    frozen = subprocess.run(pip, capture_output=True, text=True, check=True).stdout.split()
    have = {line.split("+")[0] if line.startswith(("torch==", "torchvision==")) else line for line in frozen}
    missing = [pin for pin in layout.pins() if pin not in have]
    if missing:
        raise KitBrokenError(f"pip installed other versions than pinned: {', '.join(missing)} not found")


def copy_stubs(kit: CpuKit) -> None:
    fresh = kit.root / "stubs.new"
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(layout.STUBS, fresh, ignore=shutil.ignore_patterns("__pycache__"))
    replace_folder(fresh, kit.stubs)


def make_models(kit: CpuKit) -> None:
    fresh = kit.root / "models.new"
    shutil.rmtree(fresh, ignore_errors=True)
    script = str(layout.MODEL_SCRIPTS[-1])
    step("the tiny models", [str(kit.python), "-B", script, str(fresh)], kit.root / "models.log")
    replace_folder(fresh, kit.models)


def replace_folder(fresh: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)


def write_ready(kit: CpuKit) -> None:
    text = json.dumps({"schema": 1, **layout.wanted(), "sglang": layout.pinned("sglang")}, indent=1)
    fresh = kit.ready_file.with_suffix(".new")
    fresh.write_text(text + "\n", encoding="utf-8")
    os.replace(fresh, kit.ready_file)


def say(text: str) -> None:
    print(text, flush=True)
