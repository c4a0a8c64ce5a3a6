"""The one error of hostside that means: not a bug, tell the operator."""

from __future__ import annotations

from typing import Dict, Union


class HostError(Exception):
    """What the operator is told.

    code: kebab-case and stable. what: one sentence. where: file, port, pid. try_: the next thing to do.
    exit_code: of product.md (1 bug, 2 input, 6 patch, 7 unreachable, 9 locked, 10 preflight); it picks the class of
    the error on the operator's side.
    """

    def __init__(self, code: str, what: str, where: str = "", try_: str = "", exit_code: int = 2) -> None:
        super().__init__(code + ": " + what)
        self.code, self.what, self.where, self.try_, self.exit_code = code, what, where, try_, exit_code

    def to_json(self) -> Dict[str, Union[str, int]]:
        return {"code": self.code, "what": self.what, "where": self.where, "try": self.try_, "exit": self.exit_code}
