# Everything that is done with this tree, by name. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help

WEFT := target/release/weft
TESTENV := target/release/weft-testenv
CLUSTER := target/cluster
# Scripts that keep something in the cache
CACHED := control-plane etcd-tools health helm krew olm olm-programs node-programs network-manager open-vswitch kernels services prometheus browser release-toolchain test-upgrade "cargo-program cargo-cyclonedx" "cargo-program cargo-deny" "cargo-program cargo-hakari" \
	"cargo-program cargo-mutants" "cargo-program cargo-nextest" "cargo-program mdbook"

.PHONY: help setup build images packages release test-release demo test test-all test-quick test-e2e test-host test-kernels test-nodes test-pages test-placement test-upgrade test-versions test-long freeze fuzz mutants check lint docs fmt generate bench cluster cluster-probe cluster-up cluster-down cluster-clean clean-cache

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{ gsub(/\$$\$$/, "$$", $$2); printf "  make %-14s %s\n", $$1, $$2 }'
	@echo "Targets of cluster-network-addons-operator work by their own names too, for example docker-build, cluster-sync and test/e2e/workflow (scripts/cnao.mk)."

setup: ## Install what is missing on this machine and build the control plane's programs (once, about 14 minutes on 2 cores; K8S=1.33 builds this version)
	@scripts/setup

build: ## Build the release binaries of weft and weft-agent, and the test environment
	@scripts/build

images: ## Build and write the container images of Weft as OCI archives, without a registry or a container engine: target/images
	@scripts/build weft weft-agent weft-testenv weft-images
	@target/release/weft-images

packages: ## Write release YAML, the Helm chart, the kustomize bases and the bundle for Operator Lifecycle Manager: target/packages
	@scripts/build weft weft-agent weft-testenv weft-packages
	@target/release/weft-packages

release: ## Make the release VERSION of the commit that is checked out: target/release-VERSION (static programs and images for amd64 and arm64; root)
	@REGISTRY=$(REGISTRY) URL=$(URL) scripts/release $(VERSION)

test-release: ## Make a release from two clones, compare all bits, and run the programs of both platforms (root)
	@scripts/test-release

demo: ## Show it: a real control plane, Weft installed as a user would, everything Available; builds only what this needs (KEEP=1 leaves it up)
	@scripts/demo

test: ## Run the tests that each change must pass, and prepare what they need (15 minutes on 2 cores once all is built; K8S=1.33: those with a control plane)
	@scripts/setup test
	@scripts/test

test-all: setup ## Run all tests of this tree, those on real nodes and with the real Placement too, build the site, and run the demo (two hours; K8S=1.33 as in test)
	@scripts/test-all

test-quick: ## Run the tests that need no cluster, no root and no set-up: unit tests, and the command line (3 minutes on 2 cores once they are built)
	@scripts/test-quick

test-versions: setup ## Run the tests that start a control plane with every supported version of Kubernetes, and sum up
	@scripts/test-versions

test-upgrade: setup ## Run each supported pair of parts of this tree and of FROM=GIT_REF on hosts with NetworkManager (the newest release by default; root)
	@scripts/test-upgrade

test-long: setup ## Run all tests, some exhaustively: a kill before and after every single write, five times the random histories
	@WEFT_EXHAUSTIVE=1 scripts/test --all

test-host: setup ## Run the tests on hosts with a real NetworkManager each (network namespaces; root), or say what keeps them from running here
	@scripts/test-host

test-kernels: setup ## Run the tests of every kind of link in User Mode Linux, with two releases of NetworkManager (root), or say what keeps them from running here
	@scripts/test-kernels

test-nodes: setup ## Run the tests on real nodes (kubelet, containerd; root), or say what keeps them from running here
	@scripts/test-nodes

test-pages: setup ## Run the tests of pages and pictures with a real browser, Mermaid and Graphviz (Node.js), or say what keeps them from running here
	@scripts/test-pages

test-placement: setup ## Run all tests with the real OpenStack Placement, Keystone, MariaDB and Apache, Placement's own suite included (minutes; root)
	@scripts/test-placement

test-e2e: ## Test Weft in the cluster of KUBECONFIG=FILE with IMAGE=… AGENT_IMAGE=…, and remove everything (INSTALLED=1: the add-ons' operator that is installed there, DOMAINS=addons, JUNIT=FILE, KEEP=1, ARGS=--yes)
	@scripts/test-e2e $(ARGS)

freeze: setup ## Write the fixture of a release, which tests upgrade from then on: VERSION=0.1.0
	@scripts/freeze $(VERSION)

fuzz: ## Look for inputs that break something, guided by coverage, TIME=60 seconds a target
	@scripts/fuzz

mutants: ## Break the code in random places and show what no test notices (20 minutes; PART=placement takes one part)
	@scripts/mutants $(PART)

check: lint ## Run lint and the unit tests
	@scripts/test-quick --units

lint: ## Check format, lints, writing style, the features that tests share, and the licences, sources and known advisories of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	@scripts/style
	@CARGO=$$(command -v cargo) $$(scripts/cargo-program cargo-hakari) hakari verify --quiet
	@scripts/check-dependencies

docs: ## Build the site of docs/ with mdBook: target/site. Check its links, and use it in a real browser, or say what is missing for that
	@scripts/docs

fmt: ## Format the code
	cargo fmt --all

generate: ## Write the generated files again: the CRDs, admission policies and Argo CD health checks under deploy/, the API reference under docs/api/, and the features that tests share
	cargo run --quiet -p weft-api --example generate
	WEFT_GENERATE=1 cargo test --quiet -p weft-agent --lib schema_tests::
	CARGO=$$(command -v cargo) $$(scripts/cargo-program cargo-hakari) hakari generate

bench: setup build ## Print Weft's figures beside the lower bound, measured in the same run
	cargo run --quiet --release -p weft-bench

cluster: cluster-probe setup images ## Start a cluster of three real nodes in the background, with a pod network and all images of the tutorials (BARE=1: no network yet; OPEN_VSWITCH=1, NETWORK_MANAGER=1: the nodes run these; root)
	@scripts/cluster

cluster-probe:
	@scripts/cluster --probe

cluster-up: ## Start a control plane with three nodes in the background (KUBEVIRT_PROVIDER=k8s-1.33: of this version. external: that of KUBECONFIG)
	@scripts/cluster-up

cluster-down: ## End it, and remove what it left
	@-test ! -x $(TESTENV) || $(TESTENV) down --dir $(CLUSTER)
	@rm -rf $(CLUSTER)

cluster-clean: ## Remove what Weft created in the cluster of $$KUBECONFIG, or else in that of make cluster-up, and the operator; asks you before
	@scripts/cluster-clean

clean-cache: cluster-down ## Remove what is built and unpacked in the cache: programs of control plane, nodes, hosts, services and checks
	@for script in $(CACHED); do scripts/$$script --clean || exit; done

# The names that developers of cluster-network-addons-operator know
include scripts/cnao.mk
