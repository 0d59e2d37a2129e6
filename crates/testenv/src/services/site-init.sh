#!/bin/bash
# Process 1 of a site: a network with nothing but loopback, where each service has the port that it has in a cluster. Killing it ends all of them.
#
# usage: site-init.sh HOSTS READY     HOSTS: the site's /etc/hosts      READY: the file that is there once programs can be started
set -eu
mount -t proc proc /proc
mount --bind "$1" /etc/hosts
ip link set lo up
: >"$2"
# Orphans are reaped by bash.
while true; do sleep infinity & wait; done
