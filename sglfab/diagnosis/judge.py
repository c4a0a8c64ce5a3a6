"""The fold: observations → verdict. One code for a live wait, a recorded one, and a log file alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from sglfab.diagnosis import deaths, readiness, stacks, stall
from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.expectation import Expectation, share
from sglfab.diagnosis.hostfold import WATCHED, HostFold
from sglfab.diagnosis.logfold import LogFold
from sglfab.diagnosis.logverdict import LogVerdict, judge_log
from sglfab.diagnosis.outcome import Outcome
from sglfab.model import Observation, RankProgress, StageSpan, Verdict, WatchView
from sglfab.sglang import stages

TIME_ZONES_S = 900.0  # they are as far apart at least; imports do not take as long
OFFLINE_GAP = "a log file alone: processes, GPUs, HTTP and the kernel log were not looked at"


class Judge:
    """`feed` observations in order; `verdict` and `view` are pure; now_s is on the observations' clock."""

    def __init__(self, catalogue: Catalogue, *, expect: Expectation | None = None) -> None:
        self.catalogue = catalogue
        self.expect = expect or Expectation()
        self.host = HostFold()
        self.log = LogFold(catalogue)
        self.log_t: float | None = None  # when the last log bytes came
        self.moved_t = 0.0  # when the log last told more than that somebody asked for /health
        self.end_t: float | None = None  # when the log first showed an end
        self.http_t: float | None = None  # when the log first showed that the server is about to listen
        self.t = 0.0
        self.started_wall: float | None = None  # unix time of the server's start
        self._place_seen: tuple[tuple[str, bool], float] = (("import", False), 0.0)  # stage and since when
        self._asked: float | None = None  # the quiet time for which stacks were asked for
        self._cached: tuple[tuple[int, int], LogVerdict] | None = None

    def feed(self, seen: Observation) -> None:
        self.t = max(self.t, seen.t)
        if seen.kind == "log":
            self._on_log(seen)
        elif seen.kind == "log-reset":
            self.log.reset(str(seen.data.get("reason") or "truncated"))
        else:
            if seen.kind == "start":
                self.started_wall = seen.data.get("started_wall")
            self.host.feed(seen)

    def feed_log(self, chunk: bytes) -> None:
        self.log.feed(chunk)

    def _on_log(self, seen: Observation) -> None:
        data = str(seen.data.get("data") or "").encode("utf-8", "surrogateescape")
        if not data:
            return
        self.log.feed(data)
        self.log_t = seen.t
        if any(stages.PROBED not in line for line in data.splitlines()):
            self.moved_t = seen.t
        if self.http_t is None and stages.ORDER[self.log.run.progress.overall()[0]] >= stages.ORDER["http"]:
            self.http_t = seen.t
        if self.end_t is None and self.log.run.surely_ended():
            self.end_t = seen.t
        place = self.log.run.progress.overall()
        if place != self._place_seen[0]:
            self._place_seen = (place, seen.t)

    def log_verdict(self) -> LogVerdict:
        key = (self.log.bytes, self.log.earlier)
        if self._cached is None or self._cached[0] != key:
            self._cached = key, judge_log(self.log, release=self.expect.sglang_version)
        return self._cached[1]

    def verdict(self, now_s: float) -> Verdict:
        """What is known at now_s: `loading` until it is settled."""
        outcome = (
            deaths.judge(self, now_s)
            or readiness.foreign(self, now_s)
            or stall.stopped_while_serving(self, now_s)
            or readiness.judge(self, now_s)
            or stall.judge(self, now_s)
            or self._deadline(now_s)
            or Outcome("loading")
        )
        if outcome.verdict in ("stuck", "timed_out"):
            outcome = stacks.joined(self, outcome)
        return self._shape(outcome, now_s)

    def asks_for_stacks(self, now_s: float) -> bool:
        """Whether to ask the host for the stacks of all ranks: once for each time in which nothing moves."""
        since = stacks.quiet_since(self, now_s)
        asks = since is not None and since != self._asked
        self._asked = since if asks else self._asked
        return asks

    def _deadline(self, now_s: float) -> Outcome | None:
        deadline = self.expect.deadline_s
        if deadline is None or now_s < deadline:
            return None
        return Outcome(
            "timed_out", notes=(f"the cap of {deadline:g} s passed; the server is untouched", *self._last_seen(now_s))
        )

    def _last_seen(self, now_s: float) -> Iterator[str]:
        """What a wait knew that came to no end: the last answer of HTTP, and the last line of the log."""
        host = self.host
        if host.health:
            yield f"/health answered last: {host.health}{f' ({host.health_detail})' if host.health_detail else ''}"
        if host.generation and host.generation != "200":
            yield f"the one-token request answered: {host.generation}"
        if self.log_t is None:
            yield "no line of a log was seen"
        else:
            yield f"last log line {now_s - self.log_t:.0f} s before: {self.log.last_shown()[:200]}"

    def offline_verdict(self, path: str) -> Verdict:
        """The verdict of a log file alone."""
        said = self.log_verdict()
        strange = said.primary is None and not self.log.run.progress.timeline()
        why = f"no line of {path} was recognised as SGLang's" if self.log.bytes else f"{path} is empty"
        notes = (why,) if strange else ()
        outcome = Outcome(said.verdict, said.primary, said.findings, gaps=(OFFLINE_GAP,), notes=notes, log=said)
        return replace(self._shape(outcome, None), elapsed_s=self.log.elapsed())

    def _shape(self, outcome: Outcome, now_s: float | None) -> Verdict:
        run = self.log.run
        said = outcome.log or self.log_verdict()
        stage, draft = self._place(outcome, said)
        primary = outcome.primary
        findings = outcome.findings or ((primary,) if primary else ())
        return Verdict(
            verdict=outcome.verdict,
            stage=stage,
            draft=draft,
            elapsed_s=None if now_s is None else round(now_s + self.host.started_offset_s, 1),
            host=self.expect.host,
            run=self.expect.run,
            profile=self.expect.profile,
            url=self.expect.url,
            sglang_version=self.expect.sglang_version,
            exit=self.host.exit or (said.exit if outcome.verdict == "crashed" else None),
            primary=primary,
            findings=findings,
            consequences=said.consequences if outcome.verdict == "crashed" else (),
            neighbours=outcome.neighbours or (said.neighbours if primary and primary.category == "unknown" else ()),
            ruled_out=(*outcome.ruled_out, *(said.ruled_out if outcome.primary is said.primary else ())),
            gaps=tuple(dict.fromkeys((*self.host.gaps, *outcome.gaps))),
            notes=(*self._notes(), *outcome.notes),
            timeline=run.progress.timeline() if now_s is None else self._timeline(now_s),
        )

    def _place(self, outcome: Outcome, said: LogVerdict) -> tuple[str, bool]:
        if outcome.primary and outcome.primary.stage:
            return outcome.primary.stage, outcome.primary.draft
        if outcome.verdict in ("ready", "degraded"):
            return "serving", False
        return said.stage, said.draft

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self.log.earlier:
            notes.append(f"judged the last of {self.log.earlier + 1} runs in this file")
        notes += self.log.resets
        return tuple(notes)

    def view(self, now_s: float) -> WatchView:
        run = self.log.run
        stage, draft = run.progress.overall()
        return WatchView(
            elapsed_s=now_s + self.host.started_offset_s,
            stage=stage,
            draft=draft,
            ranks=self._ranks(),
            http=self.host.health,
            http_detail=self.host.hindrance(),
            last_line=self.log.last_shown()[:500],
            last_line_age_s=None if self.log_t is None else max(0.0, now_s - self.log_t),
            timeline=self._timeline(now_s),
            alive=sum(p.role in WATCHED for p in self.host.processes.values()) or None,
            start_left_s=self._start_left_s(now_s),
        )

    def _ranks(self) -> tuple[RankProgress, ...]:
        ranks = self.log.run.progress.views()
        bar = self.log.pending_bar()
        if bar is None or not ranks:
            return ranks
        return (replace(ranks[0], progress=bar.progress, detail=f"{bar.done:g}/{bar.total:g}"), *ranks[1:])

    def _timeline(self, now_s: float) -> tuple[StageSpan, ...]:
        """The stages so far; the estimate comes from this profile's former runs, and only else from the bar."""
        spans = self._spans()
        left = self._stage_left_s(now_s) if spans else None
        if left is None:
            return spans
        return (*spans[:-1], replace(spans[-1], eta_s=left, eta_from="former-runs"))

    def _spans(self) -> tuple[StageSpan, ...]:
        """The stages on the clock of the server's start, where it is known; what comes before the first is `import`."""
        logged = self.log.run.progress.timeline()
        if self.started_wall is None:
            return logged
        if not logged:
            return (StageSpan("import", start_s=0.0),)
        late = _log_began_s(self.log.run.progress.begun, self.started_wall)
        spans = tuple(_later(span, late) for span in logged)
        return (StageSpan("import", start_s=0.0, end_s=spans[0].start_s), *spans) if spans[0].start_s else spans

    def _stage_left_s(self, now_s: float) -> float | None:
        usual = self.expect.usual_s(*self._place_seen[0])
        return None if usual is None else max(0.0, usual - self._stage_took_s(now_s))

    def _stage_took_s(self, now_s: float) -> float:
        """By our clock, or, where the stage began before the wait did, by the times in the log."""
        last = self.log.run.progress.spans[-1:]
        if not last:
            return now_s + self.host.started_offset_s
        seen, logged = now_s - self._place_seen[1], self.log.elapsed()
        if last[0].start_s is None or logged is None:
            return seen
        return max(seen, logged - last[0].start_s + now_s - (self.log_t or 0.0))

    def _start_left_s(self, now_s: float) -> float | None:
        """Seconds until ready by the former runs: what is left of this part of the start, and the parts to come."""
        left = self._stage_left_s(now_s)
        if left is None:
            return None
        begun = {"import", *(share(span.stage, span.draft) for span in self.log.run.progress.spans)}
        return left + sum(median(took) for part, took in self.expect.former.items() if part not in begun)


def _log_began_s(first: float | None, started_wall: float) -> float:
    """Seconds from the server's start to the first time in its log, which is whole seconds of an unknown time zone."""
    return 0.0 if first is None else max(0.0, round((first - started_wall + 1.0) % TIME_ZONES_S - 1.0, 1))


def _later(span: StageSpan, seconds: float) -> StageSpan:
    start_s, end_s = (None if at is None else at + seconds for at in (span.start_s, span.end_s))
    return replace(span, start_s=start_s, end_s=end_s)
