#!/bin/bash
# Runs a command as in a container: on a copy of this machine's files of its own, gone with it, with what OpenStack's container images have besides,
# and with these mounts. It has the network and the processes of its site.
#
# usage: container.sh USR MOUNTS USER COMMAND...
# USR: the folders of /usr, as `lowerdir` of an overlay has them; /usr is the machine's own
# MOUNTS: a file with lines TARGET<tab>SOURCE<tab>ro or rw
# USER: the number of the one whose the output is
set -eu
umask 022
usr=$1
mounts=$2
user=$3
shift 3
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
root=/mnt/root
if [[ $usr != /usr ]]; then
  mkdir /mnt/usr /mnt/usr-work
  mount -t overlay -o "lowerdir=$usr,upperdir=/mnt/usr,workdir=/mnt/usr-work" overlay "$root/usr"
fi
for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
cp /etc/hosts "$root/etc/hosts"
# The machine's own configuration of these has no place here.
rm -rf "$root"/etc/{placement,keystone,httpd,my.cnf,mysql}

printf '%s:x:%d:%d::/:/usr/sbin/nologin\n' placement 42482 42482 apache 48 48 >>"$root/etc/passwd"
printf '%s:x:%d:\n' placement 42482 apache 48 >>"$root/etc/group"
mkdir -p "$root"/var/log/{placement,httpd} "$root"/var/lib/kolla/config_files "$root"/etc/httpd/{conf,conf.d,conf.modules.d} \
  "$root"/etc/pki/tls/{certs,private} "$root/etc/placement"
chown 42482:42482 "$root"/var/log/placement

while IFS=$'\t' read -r target source mode; do
  mkdir -p "$root$(dirname "$target")"
  if [[ -d $source ]]; then mkdir -p "$root$target"; else touch "$root$target"; fi
  mount --bind "$source" "$root$target"
  if [[ $mode == ro ]]; then mount -o remount,bind,ro "$root$target"; fi
done <"$mounts"

# script PATH: an executable of the image, from stdin
script() { install -D -m 755 /dev/stdin "$root$1"; }

for service in placement keystone; do
  for program in "$root/opt/$service/bin/$service"-*; do
    if [[ -e $program ]]; then ln -sf "/opt/$service/bin/${program##*/}" "$root/usr/bin/${program##*/}"; fi
  done
done
if [[ -d $root/opt/placement/bin ]]; then
  # Newer releases leave the script to who packages them.
  script /usr/bin/placement-api <<<'from placement.wsgi.api import application'
  kolla=$(echo "$root"/opt/placement/lib/python3*/site-packages/kolla/docker/base)
  script /usr/local/bin/kolla_start <"$kolla/start.sh"
  { echo '#!/opt/placement/bin/python3' && tail -n +2 "$kolla/set_configs.py"; } | script /usr/local/bin/kolla_set_configs
  # What the images let the service's user do as root; here it is root.
  script /usr/local/bin/sudo <<<$'#!/bin/bash\nif [[ $1 == -E ]]; then shift; fi\nexec "$@"'
  # Nothing to do: no certificates of this machine's are to be trusted, no sources are to be installed.
  for hook in kolla_copy_cacerts kolla_install_projects kolla_extend_start; do script "/usr/local/bin/$hook" <<<'#!/bin/sh'; done
fi

# Apache as it is on CentOS: its name, and its modules below /etc/httpd.
script /usr/sbin/httpd <<<$'#!/bin/sh\nexec apache2 -d /etc/httpd -f conf/httpd.conf "$@"'
ln -sfn /usr/lib/apache2/modules "$root/etc/httpd/modules"
ln -sfn /run "$root/etc/httpd/run"
mkdir -p "$root/run/apache2" "$root/run/lock/apache2" # as Debian compiles it: for the sockets of mod_wsgi
touch "$root"/etc/mime.types "$root"/etc/httpd/mime.types
for module in mpm_event authz_core authz_host alias dir env filter headers mime setenvif socache_shmcb ssl wsgi; do
  [[ -e $root/usr/lib/apache2/modules/mod_$module.so ]] && echo "LoadModule ${module}_module modules/mod_$module.so"
done >"$root/etc/httpd/conf.modules.d/00-all.conf"
echo 'WSGIPythonHome /opt/placement' >"$root/etc/httpd/conf.modules.d/10-wsgi-python3.conf"

# As runc has it: who runs there opens its own stdout and stderr by their names.
chown "$user" /proc/self/fd/1 /proc/self/fd/2
exec chroot "$root" env -C / "$@"
