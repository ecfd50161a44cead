# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# `make demo` shows the collection at work on a host booted here; `make test` runs every test. All they make lies in .cache/.

SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
CACHE := $(CURDIR)/.cache
VENV := $(CACHE)/venv
VENV_MADE := $(VENV)/.made
STANDIN := $(CACHE)/wheelhouse/standin
STANDIN_MADE := $(CACHE)/wheelhouse/.standin
HOSTS := tests/hosts/hosts
# The longest first, so that two at a time end together.
LONG := compare waiting failures deploy fleet secrets
SCENARIO ?= $(LONG) $(filter-out real $(LONG),$(patsubst molecule/%/molecule.yml,%,$(wildcard molecule/*/molecule.yml)))

export PATH := $(VENV)/bin:$(PATH)
export HOSTS_PYTHON := $(VENV)/bin/python
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export MOLECULE_GLOB := molecule/*/molecule.yml
export MOLECULE_COMMAND_BORDERS := false
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help
help: ## what can be made
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /\1\t/' | expand -t 18

$(VENV_MADE): tests/requirements.txt tests/setup.sh
	@tests/setup.sh $(PYTHON) $(VENV) -r tests/requirements.txt

$(STANDIN_MADE): $(VENV_MADE) $(shell find tests/mock_sglang -type f -not -name '*.pyc' 2>/dev/null)
	@rm -rf $(STANDIN)
	$(VENV)/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(STANDIN) ./tests/mock_sglang
	touch $@

.PHONY: venv standin
venv: $(VENV_MADE) ## the virtual environment that everything here runs in
standin: $(STANDIN_MADE) ## the wheelhouse of the stand-in server

.PHONY: demo demo-compare demo-down
demo: $(VENV_MADE) $(STANDIN_MADE) ## boot a host here, deploy EP8 on it, leave it serving
	@tests/demo.sh

demo-compare: $(VENV_MADE) $(STANDIN_MADE) ## a campaign of four strategies on that host, in five minutes
	@tests/demo_compare.sh

demo-down: ## remove the demo's host
	@HOSTS_PYTHON=$(PYTHON) $(HOSTS) down --set demo

# The folder keeps two checkouts of one name from sharing a scenario's inventory.
molecule = env MOLECULE_EPHEMERAL_DIRECTORY=$(CACHE)/molecule/$(1) molecule test --scenario-name $(1)

PARTS := unit report lint sanity molecule real
.PHONY: test $(PARTS:%=test-%)
test: $(VENV_MADE) ## every test
	@$(VENV)/bin/python tests/run.py $(foreach part,$(PARTS),'$(part)=$(MAKE) --no-print-directory test-$(part)')

test-unit: $(VENV_MADE) ## the pure parts, in seconds
	@$(VENV)/bin/python -m pytest tests/unit -q -n 4

test-report: $(VENV_MADE) ## the HTML report in a real browser, where there is a Chromium
	@$(VENV)/bin/python -m pytest tests/report -q -rs

test-lint: $(VENV_MADE) ## linters, documentation, the built package
	@tests/checks/lint.sh

test-sanity: $(VENV_MADE) ## ansible-test sanity, oldest and newest ansible-core
	@tests/checks/sanity.sh

test-molecule: $(VENV_MADE) $(STANDIN_MADE) ## real systemd hosts; SCENARIO=name picks one
	@$(VENV)/bin/python tests/run.py --jobs 2 $(foreach scenario,$(SCENARIO),'$(scenario)=$(call molecule,$(scenario))')

test-real: $(VENV_MADE) $(STANDIN_MADE) ## the real SGLang server, on a CPU
	@$(VENV)/bin/python tests/real_sglang/wheelhouse.py $(CACHE)/wheelhouse/real
	$(VENV)/bin/python tests/run.py 'real=$(call molecule,real)'

bench-%: $(VENV_MADE) $(STANDIN_MADE) ## one measurement of tests/bench, for example bench-roundtrips
	@script=$$(find tests/bench -maxdepth 1 -type l -name '$(subst -,_,$*)*' | sort | head -n 1)
	[ -n "$$script" ] || { echo "no measurement $*; there are: $$(find tests/bench -maxdepth 1 -type l -printf '%f ' | tr _ -)"; exit 1; }
	"$$script"

.PHONY: clean
clean: ## remove all hosts and everything in .cache
	@$(HOSTS) down-all
	rm -rf $(CACHE)
