.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help check long generate wheel test lint

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

check: ## What CI runs, from a fresh environment
	.ci/run

long: ## The same, and the machine code of every kernel
	.ci/run long

generate: ## Rewrite everything that is generated: generated/, the JSON schema, the docs
	.venv/bin/wavespec generate
	$(PYTHON) docs/generate.py

wheel: ## Wheels of wavespec, and of its kernels (WAVESPEC_KERNELS=cpu,sm_90: of some targets), in dist/
	.venv/bin/wavespec generate
	$(PYTHON) -m pip wheel --no-deps -w dist . ./kernels

test: ## All tests that need no device
	$(PYTHON) -m pytest -n auto --dist worksteal

lint: ## ruff and pyright
	.venv/bin/ruff check .
	.venv/bin/pyright --pythonpath $(PYTHON)
