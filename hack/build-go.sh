#!/usr/bin/env bash
# Builds the programs, under the name that developers of cluster-network-operator know.
exec make -C "$(dirname "$0")/.." build
