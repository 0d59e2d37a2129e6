#!/usr/bin/env bash
# A shell, or a command, on a node of `make cluster`: cluster/cli.sh ssh node01 [COMMAND...]. node01 is its first node, node-1.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
if [[ ${1:-} != ssh || $# -lt 2 ]]; then
    echo "cli.sh: only 'cluster/cli.sh ssh NODE [COMMAND...]' is there. 'make help' lists what starts and ends clusters" >&2
    exit 2
fi
node=$2
shift 2
if [[ $node =~ ^node0*([1-9][0-9]?)$ ]]; then node=node-${BASH_REMATCH[1]}; fi
(($#)) || set -- sh
exec "$tree/target/release/weft-testenv" node --dir "$tree/target/cluster" "$node" "$@"
