"""Launch and debug multi-GPU SGLang servers: `fab --list`."""

from tasks import namespace as ns  # noqa: F401  (Fabric looks for a collection named ns)
