"""The way of a line into a file: in order, whole, bounded, and before the process ends."""

import atexit
import os
import signal
import time

import torch
from world import ABOUT, TARGET, World, with_tensors

ONE = torch.ones(1)


def forwards(world, count):
    """Forwards as a server makes them: nobody waits for the writer."""
    target = world.space["Target"]()
    for _ in range(count):
        target.forward(ONE, batch=BATCH)


BATCH = type("Batch", (), {"mode": type("Mode", (), {"name": "DECODE"})()})()


def in_a_child(work):
    """Run `work` in a forked child; how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(3)
    return os.waitpid(child, 0)[1]


def steps_of(lines):
    return [line["step"] for line in lines if line["kind"] == "record"]


def check_lines_keep_their_order_through_any_number_of_batches():
    world = World(with_tensors(TARGET, ids="args.ids"))
    forwards(world, 2000)
    assert steps_of(world.lines) == list(range(1, 2001))


def check_lines_do_not_wait_for_the_next_one():
    world = World(TARGET)
    forwards(world, 1)
    ends = time.monotonic() + 5
    while not world.files and time.monotonic() < ends:
        time.sleep(0.01)
    assert (world.folder / "rank0.jsonl").read_text().count("\n") == 2


def check_the_beginning_and_the_end_of_a_long_trace_stay_and_the_rest_is_counted():
    world = World(TARGET, about={**ABOUT, "max_mb": 1 / 64})  # 16 KiB
    for _ in range(100):
        forwards(world, 5)
        world.flush()
    names = world.files
    assert names[0] == "rank0.jsonl"
    assert len(names) == 3
    assert [name[:10] for name in names[1:]] == ["rank0.part"] * 2
    sizes = [(world.folder / name).stat().st_size for name in names]
    assert sum(sizes) < 16384 * 1.2
    assert sizes[0] > 16384 * 0.45
    lines, kept = world.lines, steps_of(world.lines)
    assert (kept[0], kept[-1]) == (1, 500)
    assert kept == sorted(kept)
    told = [line for line in lines if line["kind"] == "dropped"]
    assert {line["why"] for line in told} == {"max_mb"}
    assert told[-1]["count"] == 500 - len(kept)
    assert {(world.folder / name).stat().st_mode & 0o777 for name in names} == {0o600}


def check_a_short_trace_is_one_file_and_drops_nothing():
    world = World(TARGET)
    forwards(world, 50)
    assert {line["kind"] for line in world.lines} == {"proof", "record"}
    assert world.files == ["rank0.jsonl"]


def check_more_lines_than_the_queue_takes_are_counted_and_the_others_are_whole():
    world = World(with_tensors(TARGET, ids="args.ids"))
    forwards(world, 1)
    world.flush()
    world.probe.QUEUE_BYTES, world.probe.GATHER_S = 20 * world.probe.LINE_BYTES, 0.3
    forwards(world, 500)
    lines = world.lines
    told = [line for line in lines if line["kind"] == "dropped"]
    kept = steps_of(lines)
    assert {line["why"] for line in told} == {"queue"}
    assert told[-1]["count"] == 501 - len(kept) > 0
    assert kept == sorted(kept)
    forwards(world, 1)
    assert steps_of(world.lines)[-1] == 502  # it goes on


def check_a_kill_loses_at_most_the_last_moment():
    world = World(TARGET)

    def work():
        forwards(world, 50)
        time.sleep(0.3)
        forwards(world, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(work) == signal.SIGKILL
    assert steps_of(world.lines)[:50] == list(range(1, 51))


def check_an_end_writes_what_came_last():
    world = World(TARGET)

    def work():
        world.probe.GATHER_S = 60
        forwards(world, 3)
        atexit._run_exitfuncs()  # what the interpreter does first when it ends

    in_a_child(work)
    assert steps_of(world.lines) == [1, 2, 3]


def check_a_forward_that_raises_is_written_before_it_passes_on():
    world = World(TARGET)
    world.probe.GATHER_S = 60
    forwards(world, 3)
    try:
        world.space["Target"]().forward("no tensor", batch=BATCH)
    except TypeError:
        text = (world.folder / "rank0.jsonl").read_text()
        assert text.count('"record"') == 3
    else:
        raise AssertionError("it did not raise")


def check_a_forked_child_has_a_file_of_its_own_and_repeats_nothing():
    world = World(TARGET)
    forwards(world, 1)
    world.flush()
    world.probe.GATHER_S = 0.3
    forwards(world, 2)  # still in the queue when the child is made

    def work():
        forwards(world, 2)
        world.flush()

    in_a_child(work)
    forwards(world, 1)
    world.flush()
    first, second = (world.read(name) for name in sorted(world.files, key=len))
    assert [line["kind"] for line in first] == ["proof", *["record"] * 4]
    assert [line["kind"] for line in second] == ["proof", *["record"] * 2]
    assert steps_of(second) == [4, 5]
    assert first[0]["pid"] == os.getpid() != second[0]["pid"]
