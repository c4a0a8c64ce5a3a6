"""SGLang on a machine without a GPU: the installer, the kernel stand-in and a pair of tiny models."""
