# The targets of cluster-network-addons-operator by their own names, for those who know them. Each runs Weft's counterpart, or prints it and fails.

IMAGE ?=
DEPLOY_DIR ?= target/manifests

# $(call instead,TEXT): there is no such step here
define instead
@echo "make $@: $(1)" >&2; exit 2
endef

.PHONY: all goimports goimports-check whitespace whitespace-check vet gen-k8s gen-k8s-check gen-manifests generate-doc manager manifest-templator \
	docker-build docker-build-operator docker-build-registry docker-push docker-push-operator docker-push-registry cluster-sync cluster-operator-push \
	cluster-operator-install test/unit test/e2e/workflow test/e2e/lifecycle test/e2e/monitoring functest prom-rules-verify lint-metrics lint-monitoring \
	vendor release-notes prepare-patch prepare-minor prepare-major bump-all bump-kubevirtci auto-bumper statify-components update-workflows-branches

all: fmt check
goimports whitespace: fmt
vet:
	cargo clippy --workspace --all-targets --quiet -- -D warnings
goimports-check whitespace-check:
	cargo fmt --all --check

gen-k8s: generate
gen-k8s-check:
	cargo test --quiet -p weft-api
gen-manifests: build
	$(WEFT) manifests --split --domains addons -o $(DEPLOY_DIR)
generate-doc:
	WEFT_GENERATE=1 cargo test --quiet -p weft --test cli docs::

manager manifest-templator: build
docker-build docker-build-operator: images
docker-push docker-push-operator:
	@scripts/push
cluster-operator-push:
	@scripts/push --build
docker-build-registry: packages
	@scripts/build weft weft-agent weft-testenv weft-images
	@target/release/weft-images --olm target/packages/olm
docker-push-registry:
	@scripts/push weft-bundle weft-catalog
cluster-sync cluster-operator-install: build
	@IMAGE=$(IMAGE) scripts/cluster-sync

test/unit:
	cargo test --workspace --lib
# The suite runs in a cluster, as the original's does: with Weft from an image, or with the operator that is installed there.
ifneq ($(and $(KUBECONFIG),$(IMAGE)$(INSTALLED)),)
test/e2e/workflow functest: test-e2e
else
test/e2e/workflow functest:
	$(call instead,not set: $(strip $(if $(KUBECONFIG),,KUBECONFIG) $(if $(IMAGE)$(INSTALLED),,IMAGE)). The suite runs in your cluster: name it by KUBECONFIG=FILE. It installs Weft from IMAGE=registry.example/weft:TAG and AGENT_IMAGE=registry.example/weft-agent:TAG. With INSTALLED=1 instead it tests the operator that is installed there. Without a cluster 'make test' runs Weft's own tests)
endif
test/e2e/lifecycle: setup
	cargo test -p weft-system-tests commands::
test/e2e/monitoring: setup
	cargo test -p weft-system-tests --test system -- system::monitoring:: system::prometheus:: system::metrics:: system::alerts::
prom-rules-verify lint-metrics lint-monitoring:
	cargo test -p weft-system-tests system::alerts::

vendor:
	$(call instead,dependencies are not in the tree. 'cargo fetch' downloads them)
release-notes:
	$(call instead,'make release' takes them from CHANGELOG.md)
prepare-patch prepare-minor prepare-major:
	@scripts/prepare-version $(@:prepare-%=%)
bump-%:
	$(call instead,the images of the components are in crates/addons/src/settings.rs)
bump-all auto-bumper statify-components:
	$(call instead,the images of the components are in crates/addons/src/settings.rs)
bump-kubevirtci:
	$(call instead,'scripts/control-plane --bump kubernetes VERSION' pins another version of the control plane)
update-workflows-branches:
	$(call instead,edit .github/workflows)
