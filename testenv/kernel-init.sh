#!/bin/bash
# Process 1 of a kernel of scripts/in-kernel: makes a machine of it, runs the command, writes down its exit code, and turns the machine off.
#
# usage: kernel-init.sh KERNEL WORK RESULTS
#   KERNEL: usr/ with the modules   WORK: has the command, in the file job   RESULTS: the folder of this machine that it may write to
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
kernel=$1 work=$2 results=$3

# The kinds of links that tests make, Open vSwitch with its datapath in the kernel, and the file system of hosts.
modules=(overlay bonding 8021q vrf dummy macvlan macvtap ipvlan vxlan bridge br_netfilter veth tun ifb openvswitch vport-vxlan vport-geneve)

set_up() {
  set -e
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t tmpfs tmpfs /mnt
  # modprobe is of another Debian than the machine may be, and wants its modules in this folder.
  libraries=$kernel/usr/lib/x86_64-linux-gnu
  mkdir -p /mnt/lib/modules
  ln -s "$kernel/usr/lib/uml/modules/$(uname -r)" /mnt/lib/modules/
  "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$kernel/usr/sbin/modprobe" --dirname /mnt --all "${modules[@]}"

  # Writes stay in memory.
  mkdir /mnt/upper /mnt/work /mnt/root
  mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
  cd /mnt/root
  for folder in proc sys dev; do mount -n --move "/$folder" "$folder"; done
  mkdir -p dev/pts dev/shm
  ln -s /proc/self/fd dev/fd
  mount -t devpts devpts dev/pts
  for folder in dev/shm run; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done
  mount -t hostfs -o "$results" hostfs ".$results"
  pivot_root . mnt
  hostname kernel
  ip link set lo up
}

# Without an exit code, the script knows that the command did not run.
if (set_up); then
  cd /
  chroot . bash "$work/job" </dev/null
  echo $? >"$results/exit-code"
fi
sync
echo o >/proc/sysrq-trigger
sleep infinity
