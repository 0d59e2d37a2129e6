#!/bin/bash
# Process 1 of a site: a network with nothing but loopback, where each service has the port that it has in a cluster. Killing it ends all of them.
#
# usage: site-init.sh HOSTS READY USR     HOSTS: the site's /etc/hosts      READY: the file that is there once programs can be started
#                                         USR: the folders of /usr, as `lowerdir` of an overlay has them; /usr is the machine's own
set -eu
mount -t proc proc /proc
if [ "$3" != /usr ]; then mount -t overlay -o "ro,lowerdir=$3" overlay /usr; fi
mount --bind "$1" /etc/hosts
ip link set lo up
: >"$2"
# Orphans are reaped by bash.
while true; do sleep infinity & wait; done
