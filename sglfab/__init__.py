"""Launch multi-GPU SGLang servers, and say why one does not come up."""

__version__ = "0.1.0"
