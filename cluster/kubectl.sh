#!/usr/bin/env bash
# kubectl in the cluster of $KUBECONFIG. Without it, in the cluster of `make cluster-up` or `make cluster`.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
if [[ -z ${KUBECONFIG:-} ]]; then
    environment=$("$tree/target/release/weft-testenv" env --dir "$tree/target/cluster") ||
        { echo "kubectl.sh: set KUBECONFIG to a cluster, or run 'make cluster-up'" >&2; exit 1; }
    eval "$environment"
fi
exec kubectl "$@"
