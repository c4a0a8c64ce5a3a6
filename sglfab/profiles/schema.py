"""What a profile file may hold, as pydantic models; configs/profile.schema.json is generated from them.

Every value may be null: that deletes what a parent said. Nothing is converted: text is no number, `on` is no switch.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from sglfab.model import STAGES

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
Seconds = Annotated[StrictInt | StrictFloat, Field(gt=0, allow_inf_nan=False)]
Names = StrictStr | list[StrictStr]
Number = StrictInt | StrictFloat


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Secret(Strict):
    """Where a secret is fetched on the operator's machine: exactly one of the three."""

    env: StrictStr | None = Field(None, description="A variable of the operator's environment")
    file: StrictStr | None = Field(None, description="A file on the operator's machine")
    command: StrictStr | None = Field(None, description="A shell line on the operator's machine that prints it")


class Secrets(Strict):
    env: dict[StrictStr, Secret | None] | None = Field(None, description="Variables of the server's environment")
    args: dict[StrictStr, Secret | None] | None = Field(None, description="Launch options, such as api-key")


class Wait(Strict):
    deadline_s: Seconds | None = Field(None, description="Hard cap of a wait; none: wait while there is progress")
    reconnect_s: Seconds | None = Field(None, description="How long a lost SSH connection is tried again")
    probe_timeout_s: Seconds | None = Field(None, description="How long one /health may take; SGLang itself takes 20 s")
    heartbeat_s: Seconds | None = Field(None, description="How often a quiet wait says that it is alive")
    allowances: dict[StrictStr, Seconds | None] | None = Field(
        None,
        description="Seconds of silence that a stage may take, such as load-weights_s: " + ", ".join(STAGES),
    )


class Stop(Strict):
    grace_s: Seconds | None = Field(None, description="How long SIGTERM may take to drain requests")


class ProfileFile(Strict):
    """One wanted SGLang server."""

    description: StrictStr | None = Field(None, description="One line for `fab profiles`")
    extends: Names | None = Field(None, description="Profiles to build on; the later wins")
    args: dict[StrictStr, Any] | None = Field(
        None,
        description="SGLang's launch options in its own spelling, without the dashes; true: a switch, false: absent",
    )
    env: dict[Annotated[str, Field(pattern=ENV_NAME)], StrictStr | StrictInt | StrictFloat | None] | None = Field(
        None, description="Environment of the server"
    )
    hosts: Names | None = Field(None, description="Where it runs; none: this machine, or -H")
    python: StrictStr | None = Field(None, description="Interpreter or virtual environment on the host")
    cwd: StrictStr | None = Field(None, description="Folder on the host that the server starts in")
    setup: Names | None = Field(None, description="Shell lines run before the server, such as `module load cuda`")
    ulimits: dict[StrictStr, StrictStr | StrictInt | None] | None = Field(
        None, description="Limits as the shell's ulimit counts them, such as nofile: 1048576 or memlock: unlimited"
    )
    port: Port | None = Field(None, description="Port of the HTTP server")
    cuda_graphs: StrictBool | None = Field(None, description="false: off, as the installed release needs it")
    wait: Wait | None = Field(None, description="How long what may last")
    patches: Names | None = Field(None, description="Debug patch sets that the server runs with")
    patch_via: Literal["file", "plugin"] | None = Field(
        None,
        description="How the taps get in: `file`, a footer in the installed files; `plugin`, no file is touched "
        "(SGLang 0.5.11 or newer)",
    )
    secrets: Secrets | None = Field(None, description="Values that are fetched when needed and written nowhere")
    stop: Stop | None = Field(None, description="How the server is stopped")


KEYS = tuple(ProfileFile.model_fields)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a profile file, for editors."""
    shape = ProfileFile.model_json_schema()
    env = next(part for part in shape["properties"]["env"]["anyOf"] if "patternProperties" in part)
    env["additionalProperties"] = False  # pydantic leaves other names open, although it refuses them itself
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **shape}


def json_schema_text() -> str:
    """What configs/profile.schema.json must hold."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
