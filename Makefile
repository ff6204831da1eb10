.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help fast test check long generate wheel lint

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

check: ## What CI runs, from a fresh environment: all generated files, all tests but those that take long
	.ci/run

long: ## The same, the tests that take long, and the machine code of every kernel
	.ci/run long

generate: ## Rewrite everything that is generated: generated/, the JSON schema, the docs
	.venv/bin/wavespec generate
	$(PYTHON) docs/generate.py

wheel: ## Wheels of wavespec, and of its kernels (WAVESPEC_KERNELS=cpu,sm_90: of some targets), in dist/
	.venv/bin/wavespec generate
	$(PYTHON) -m pip wheel --no-deps -w dist . ./kernels

fast: ## The tests that compile nothing and take moments: the bulk of them
	$(PYTHON) -m pytest -n auto --dist worksteal -m "not compiles and not slow and not rare"

test: ## Every kernel on every target too, as far as that needs no device
	$(PYTHON) -m pytest -n auto --dist worksteal -m "not rare"

lint: ## ruff and pyright
	.venv/bin/ruff check .
	.venv/bin/pyright --pythonpath $(PYTHON)
