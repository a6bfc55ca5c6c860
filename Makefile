# Needs python3 (3.11 or later, with pip and venv) and make; everything else is brought here by the lock file.
PYTHON ?= python3
UV := .uv/bin/uv
BIN := .venv/bin
export UV_PROJECT_ENVIRONMENT := .venv
# Some images set it. Tests start hundreds of processes, each of which would compile all that it imports: 2 s instead of 0.7.
unexport PYTHONDONTWRITEBYTECODE
# A test that walks over a set draws the same examples in each run. What may not depend on the order is tested with other seeds.
export PYTHONHASHSEED := 0

.PHONY: help demo test affected test-slow browser e2e attack coverage lint apilint audit bench soak docs site release tutorial pythons pictures format clean
help:  ## this list
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | sort

# uv lives apart from .venv: a sync of .venv would remove it again.  Pip checks its hash, and uv those of all else (uv.lock).
$(UV): .ci/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "runrig needs Python 3.11 or later; PYTHON=python3.12 make ... picks another" >&2; exit 2; }
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

.venv/.synced: $(UV) pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --extra dev --python $(PYTHON)
	@touch $@

demo: .venv/.synced  ## two teams share four GPUs: borrowing, reclaim and re-queue, told step by step
	$(BIN)/python -m demo.borrowing

FAST := not slow and not soak and not kubernetes
SLOW := (slow or explored) and not soak and not kubernetes

test: .venv/.synced  ## what an ordinary change can break, in five minutes at most: no processes, no servers
	$(BIN)/pytest -n 3 -m "$(FAST)" --budget fast
	@echo "left out: what make test-slow runs, with real processes, and make e2e, on a real Kubernetes API server"

affected: .venv/.synced  ## of make test, what differs from main can break; BASE=COMMIT compares with another commit
	@tests=$$($(BIN)/python -m tests.affected $(BASE)); test -n "$$tests" || { echo "no test can notice what changed"; exit 0; }; \
		$(BIN)/pytest -n 3 -m "$(FAST)" $$tests

# Failover and load run alone, because they measure times.
test-slow: .venv/.synced .chromium  ## the rest: servers, attacks, crashes, failover, packaging, examples, fuzzing, browser
	HYPOTHESIS_PROFILE=same $(BIN)/pytest -n 4 -m "$(SLOW)" --budget slow --ignore tests/failover --ignore tests/load --ignore tests/browser
	$(BIN)/pytest -m "$(SLOW)" tests/failover tests/load
	$(BIN)/pytest -n 3 --dist loadfile -m "$(SLOW)" -rs tests/browser

# Chromium comes from the system; where it is missing and cannot be installed the tests are left out, and say so.
.PHONY: .chromium
.chromium:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 || true

browser: .venv/.synced .chromium  ## the page in a real browser, Chromium, which is installed if it is missing and may be
	$(BIN)/pytest -rs tests/browser

e2e: .venv/.synced  ## tests on a real Kubernetes API server; the first time it is built, which takes a while
	@command -v go >/dev/null || test -x $(BIN)/go || $(UV) sync --quiet --frozen --extra dev --extra programs --python $(PYTHON)
	PATH="$$PATH:$(CURDIR)/$(BIN)" $(BIN)/python -m e2e.programs
	$(BIN)/pytest -n 3 -m "kubernetes and not soak" -rs tests/kubernetes

attack: .venv/.synced  ## what must not get in: tokens, roles, paths, origins, sizes, slow clients, logins, against real servers
	$(BIN)/pytest -n 2 tests/attack

# Without one test that takes time, which tracing doubles.
coverage: .venv/.synced  ## how much of domain, engine, kueue and spec their own tests reach, line by line
	$(BIN)/pytest -n 2 -m "not soak and not kubernetes" --cov=runrig.domain --cov=runrig.engine --cov=runrig.kueue --cov=runrig.spec \
		--cov-report=term:skip-covered --ignore tests/kueue/engine/test_second_opinion.py \
		--deselect tests/kueue/read/test_properties.py::test_half_a_megabyte_is_read_in_two_seconds tests/domain tests/engine tests/kueue tests/spec

lint: .venv/.synced  ## format, style, types, allowed imports, prose, spelling, and subjects of commits
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/english.py
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md docs src
	$(BIN)/python .ci/subjects.py

.PHONY: .npm
.npm: .venv/.synced
	@command -v npm >/dev/null || test -x $(BIN)/npm || $(UV) sync --quiet --frozen --extra dev --extra programs --python $(PYTHON)

# Spectral, pinned with all that it needs by its own lock file.
.spectral/.installed: .ci/spectral/package.json .ci/spectral/package-lock.json | .npm
	mkdir -p .spectral && cp .ci/spectral/package.json .ci/spectral/package-lock.json .spectral/
	PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --prefix .spectral --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

apilint: .spectral/.installed  ## what Spectral says of the OpenAPI document; any finding fails
	$(BIN)/python -c "import json, runrig.api.app as app; print(json.dumps(app.described().openapi()))" >.spectral/openapi.json
	PATH="$$PATH:$(CURDIR)/$(BIN)" .spectral/node_modules/.bin/spectral lint --ruleset .ci/spectral/ruleset.yaml --fail-severity hint .spectral/openapi.json

format: .venv/.synced  ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.synced  ## how fast everything is, section by section, beside reference figures, goals and a calibration loop; a summary at the end
	$(BIN)/python -m bench

soak: .venv/.synced  ## the long tests
	PYTHONHASHSEED=random HYPOTHESIS_PROFILE=explore $(BIN)/pytest -n 2 -m "(soak or explored) and not kubernetes" --ignore tests/load --ignore tests/failover
	$(BIN)/pytest -m soak tests/failover  # alone, as what follows, because they measure times
	$(BIN)/pytest -m soak -rP tests/load
	$(BIN)/pytest -m "kubernetes and soak" -rP tests/kubernetes

audit: .audit/.synced  ## whether a vulnerability is known of anything in uv.lock; asks PyPI, and says so if it cannot
	$(BIN)/python .ci/audit.py $(UV) .audit/bin/pip-audit

# Apart from .venv, where it would bring its own versions of what runs.
.audit/.synced: .venv/.synced
	UV_PROJECT_ENVIRONMENT=.audit $(UV) sync --quiet --frozen --only-group audit --python $(PYTHON)
	@touch $@

# What docs/production.md installs from.
deploy/requirements.txt: .venv/.synced
	$(UV) export --quiet --frozen --extra postgresql --extra kubernetes --no-emit-project --no-header --no-annotate -o $@ >/dev/null

docs: .venv/.synced deploy/requirements.txt  ## write what the docs take from the code (commands, routes, errors) and check their links
	$(BIN)/python -m docs.generate
	$(BIN)/python -m tests.docs.test_messages

# Apart from .venv, as with .audit.
.site/env/.synced: .venv/.synced
	UV_PROJECT_ENVIRONMENT=.site/env $(UV) sync --quiet --frozen --only-group site --python $(PYTHON)
	@touch $@

# Draws the diagrams. Pinned by its hash, and part of the site, so that a reader's browser asks no other server for it.
MERMAID := mermaid-12.3.0
.site/mermaid.min.js: .ci/mermaid.sha512 | .npm
	mkdir -p .site && cd .site && PATH="$$PATH:$(CURDIR)/$(BIN)" npm pack --silent $(subst -,@,$(MERMAID)) >/dev/null
	cd .site && sha512sum --check --quiet ../$< && tar xzOf $(MERMAID).tgz package/dist/mermaid.min.js >mermaid.min.js

site: .site/env/.synced .site/mermaid.min.js  ## build the docs as a site in .site/html; a link that leads nowhere fails
	$(BIN)/python -m docs.site .site/env/bin/zensical

# Apart from .venv, as with .audit.
.release/.synced: .venv/.synced
	UV_PROJECT_ENVIRONMENT=.release $(UV) sync --quiet --frozen --group release --python $(PYTHON)
	@touch $@

release: .release/.synced  ## build both packages, manual pages, completions and an SBOM into dist/, and try them; publishes nothing
	.release/bin/python .ci/release.py $(UV)

tutorial: .venv/.synced  ## from nothing: get uv, build the wheel, start it with uvx and type the tutorial, in five minutes at most
	PYTHONPATH=. $(BIN)/python .ci/tutorial.py

pythons: .venv/.synced  ## try the wheel under each other Python that can be had, and name those that cannot
	PYTHONPATH=. $(BIN)/python .ci/pythons.py $(UV)

pictures: .venv/.synced  ## take the pictures of docs/page.md and the README anew, in Chromium
	$(BIN)/python -m docs.pictures

clean:  ## remove what make made
	rm -rf .venv .uv .audit .release .site .spectral dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
