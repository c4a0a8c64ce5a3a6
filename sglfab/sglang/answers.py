"""What SGLang answers over HTTP, as far as it tells its servers from others. All releases from 0.4.6 on."""

from __future__ import annotations

from collections.abc import Mapping

NO_SUCH_ROUTE = (404, 405, 501)  # to POST /generate: every SGLang has that route, also for a model that cannot generate
FORBIDDEN = (401, 403)  # the server wants a key that we do not have; it will go on wanting it


def is_model_info(body: object) -> bool:
    """Whether the body is that of /model_info (/get_model_info before 0.5.6)."""
    return isinstance(body, Mapping) and ("model_path" in body or "is_generation" in body)
