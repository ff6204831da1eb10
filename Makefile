.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help check generate test lint

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

check: ## What CI runs, from a fresh environment
	.ci/run

generate: ## Rewrite everything that is generated: generated/, the JSON schema, the docs
	.venv/bin/wavespec generate
	$(PYTHON) docs/generate.py

test: ## All tests that need no device
	$(PYTHON) -m pytest -n auto --dist worksteal

lint: ## ruff and pyright
	.venv/bin/ruff check .
	.venv/bin/pyright --pythonpath $(PYTHON)
