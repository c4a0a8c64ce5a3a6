# make demo   the main job on a real SGLang on the CPU
# make test   everything but the slow tests; sets up what it needs first
PYTHON ?= python3
VENV   ?= .venv
PY      = $(VENV)/bin/python
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.sglfab-stamp
PYTEST  = SGLFAB_REQUIRE_REAL=1 $(PY) -m pytest

.PHONY: help demo test test-all check bench docs fmt clean venv sglang sshd
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

demo: venv ## the main job, end to end, on a real SGLang on the CPU (sets everything up)
	$(PY) -m sglfab.testing.demo

# The real servers one after the other: each needs both cores; the rest side by side.
test: check sglang sshd ## lint, types, and all tests but the slow ones, the real-server ones included
	$(PYTEST) -n 2 -m "not slow and not gpu and not sglang"
	$(PYTEST) -m "sglang and not slow and not gpu"

test-all: check sglang sshd ## the same, with the slow tests
	$(PYTEST) -n 2 -m "not gpu and not sglang"
	$(PYTEST) -m "sglang and not gpu"

check: venv ## ruff, mypy, and the Python floor of what runs on the host
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy sglfab
	$(BIN)/vermin --quiet --no-tips --violations --target=3.8- $(wildcard sglfab/hostside)

bench: venv sglang ## measure what docs/benchmarks.md states
	$(PY) -m sglfab.testing.race
	PYTHONPATH=. $(PY) tools/bench_reader.py 1024
	PYTHONPATH=. $(PY) tools/bench_reader.py 512 --runtime
	PYTHONPATH=. $(PY) tools/bench_reader.py 256 --plain
	PYTHONPATH=. $(PY) tools/bench_reader.py 256 --plain --runtime
	PYTHONPATH=. $(PY) tools/bench_watch.py 60
	PYTHONPATH=. $(PY) tools/bench_patch.py
	PYTHONPATH=. $(PY) tools/bench_probe.py statistics
	PYTHONPATH=. $(PY) tools/bench_probe.py

docs: venv ## write the generated parts of README.md and docs/
	PYTHONPATH=. $(PY) tools/commands_doc.py
	PYTHONPATH=. $(PY) tools/profile_schema.py
	PYTHONPATH=. $(PY) tools/signature_pages.py

fmt: venv ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was built in this checkout (the SGLang kit stays in ~/.cache/sglfab)
	rm -rf .venv .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv: $(STAMP) ## the project's own environment, as constraints.txt locks it

$(STAMP): constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) was found; name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "making $(VENV) (about 60 MB of downloads, once)"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r constraints.txt
	touch $@

sglang: venv ## install SGLang for the CPU and the tiny models, once, into ~/.cache/sglfab/cpu
	$(PY) -m sglfab.testing.cpu install $(KIT_FLAGS)

sshd: ## the OpenSSH server that the ssh tests start on loopback
	@if command -v sshd >/dev/null || test -x /usr/sbin/sshd; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing openssh-server (about 2 MB): the ssh tests start one of their own on loopback"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssh-server; \
	else echo "the ssh tests need sshd; install it: sudo apt-get install openssh-server"; exit 1; fi
