"""A scripted stand-in for SGLang: its files, its start-up lines, its processes and its HTTP side, without a model.

`build.make_standin(folder)` makes an environment whose `python -m sglang.launch_server` is ready in less than a second.
What it does is a JSON script in SGLANG_STANDIN (site/sglang/_standin/script.py). It has no torch and runs no model: the
probe of the patches finds its classes, but there are no tensors to write about.
"""
