"""The stand-in's sglang package: not SGLang."""
