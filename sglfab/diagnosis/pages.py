"""The page of a finding: what it means, what to do, when the advice is wrong, what the log looks like."""

from __future__ import annotations

from sglfab.diagnosis.signature import Advice, Signature, shown


def page_of(signature: Signature) -> str:
    """Markdown, the same for `fab explain` and docs/signatures/."""
    parts = [f"# {signature.id}", shown(signature.title), _facts(signature), signature.explanation, _advice(signature)]
    if signature.wrong_when:
        parts.append(f"## When this advice is wrong\n\n{_sentence(signature.wrong_when)}")
    if samples := signature.extra.get("samples"):
        excerpt = "\n".join("    " + line for line in samples[0].rstrip("\n").split("\n"))
        parts.append(f"## What the log shows\n\n{excerpt}")
    parts.append(f"Source: {_sentence(signature.source)}")
    return "\n\n".join(parts) + "\n"


def _facts(signature: Signature) -> str:
    facts = [f"category `{signature.category}`", f"severity {signature.severity}", f"confidence {signature.confidence}"]
    if signature.stage:
        facts.append(f"usual stage {signature.stage}")
    if signature.retired:
        facts.append("retired: no longer reported")
    return " · ".join(facts)


def _advice(signature: Signature) -> str:
    return "## What to do\n\n" + "\n".join(f"- {shown(a.say)}{_condition(a)}" for a in signature.advice)


def _condition(advice: Advice) -> str:
    said = []
    if advice.stages:
        said.append("in " + " or ".join(advice.stages))
    if advice.draft is not None:
        said.append("for the draft" if advice.draft else "for the target")
    if advice.since:
        said.append(f"from {advice.since} on")
    if advice.before:
        said.append(f"before {advice.before}")
    return f" ({', '.join(said)})" if said else ""


def _sentence(text: str) -> str:
    text = text.strip()
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
