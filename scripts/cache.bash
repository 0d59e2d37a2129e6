# Sourced by the scripts that keep something under weft's cache folder: programs built from pinned Go modules, once for all trees.
# shellcheck shell=bash
#
# Before use: `name` is that of the script. `in_cache` sets `work`, the folder that the build functions write to.

modules=$(cd "$(dirname "${BASH_SOURCE[0]}")/../testenv" && pwd)
weft_cache=${WEFT_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set: set WEFT_CACHE to a folder for the builds}/.cache}/weft}
flags=(-trimpath)

# Programs that would wait for a network without an end of their own. Those of Debian, Python, Node.js and Rust have limits. A build of the slowest program
# takes five minutes on two cores.
download_limit=900 build_limit=1800 lock_limit=3600

say() { printf '%s\n' "$*" >&2; }
die() { say "${name:?}: $*"; exit 1; }

# version_of_tree: the version in Cargo.toml
version_of_tree() { sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' "$modules/../Cargo.toml"; }

# usage SCRIPT: its leading comment
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$1" >&2; }

# need_room FOLDER GIB PURPOSE: ends the script if the disk of FOLDER, which need not exist yet, has less than this free
need_room() {
  local folder=$1 free
  until [[ -d $folder ]]; do folder=$(dirname "$folder"); done
  free=$(df --output=avail --block-size=1M "$folder" | tail -n 1 | tr -d ' ')
  [[ $free =~ ^[0-9]+$ ]] || free=0
  ((free >= $2 * 1024)) || die "$3 needs $2 GiB, and the disk of $folder has $free MiB free: make room there, or set ${4:?} to a folder on another disk"
}

# install_missing PROGRAM=PACKAGE...: installs the Debian packages of those programs (or files, if absolute) that are not there
install_missing() {
  local pair missing=()
  for pair in "$@"; do
    [[ $pair == /* && -e ${pair%%=*} ]] || command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "these programs' packages are missing: ${missing[*]}"
  ((EUID == 0)) || die "these packages are missing, and only root can install them: apt-get install ${missing[*]}"
  say "$name: installing ${missing[*]}"
  # It asks nothing, and waits while another one installs.
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o "DPkg::Lock::Timeout=$download_limit")
  { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } </dev/null >&2
}

# unpack SUITE PACKAGES FOLDER: FOLDER/usr gets usr/ of these packages of Debian, and of all that they need. Nothing is installed.
unpack() {
  local root folder
  root=$(mktemp -d "$work/.root.XXXXXX")
  # The signature counts, not the date: mirrors may stand still.
  mmdebstrap --quiet --aptopt='Acquire::Check-Valid-Until "false"' --variant=extract --mode=root --format=directory \
    --include="$2" "$1" "$root" >&2 || die "the packages $2 of Debian $1 are not to be had, see above"
  # Up to bookworm some packages have files next to usr/, which an installation would move there.
  for folder in bin sbin lib lib64; do
    if [[ -d $root/$folder && ! -L $root/$folder ]]; then cp -a "$root/$folder" "$root/usr/"; fi
  done
  mkdir -p "$3"
  mv "$root/usr" "$3/usr"
  rm -rf "$root" "$3"/usr/share/{doc,man,locale}
}

# in_usr FOLDER COMMAND...: runs it where FOLDER/usr lies over the machine's own /usr
in_usr() {
  # shellcheck disable=SC2016
  unshare --mount -- sh -c '[ "$0" = / ] || mount -t overlay -o "ro,lowerdir=${0%/}/usr:/usr" overlay /usr; exec "$@"' "$@"
}

# debian_of_machine: the release of Debian that this machine runs, like bookworm
debian_of_machine() { (. /etc/os-release && echo "${VERSION_CODENAME:?/etc/os-release names no release of Debian}"); }

# pinned MODULE PATH: the version of PATH that MODULE's go.mod requires (a path alone on its line is a tool)
pinned() { awk -v path="$2" '$1 == path && NF > 1 { print $2; exit } $1 == "require" && $2 == path { print $3; exit }' "$modules/$1/go.mod"; }

# kubernetes_versions: the supported minor versions of Kubernetes, oldest first: each has a folder
kubernetes_versions() { (cd "$modules/kubernetes" && printf '%s\n' *) | sort -V; }
newest_kubernetes() { kubernetes_versions | tail -n 1; }

# need_go HELP: sets go_version and go_arch, or ends with the advice
need_go() {
  command -v go >/dev/null || die "Go 1.26 or newer is needed for the build, and there is no 'go' in PATH.
  Install it from https://go.dev/dl/, or $1."
  # Asked inside a module, so that a newer toolchain which Go fetches by itself counts.
  read -r go_version go_arch < <(cd "$modules/etcd" && go env GOVERSION GOARCH 2>/dev/null | paste -sd' ') || true
  [[ -n ${go_version:-} ]] || die "Go 1.26 or newer is needed for the build; found: $(cd / && go version 2>&1).
  Install it from https://go.dev/dl/, or allow Go to fetch it: GOTOOLCHAIN=auto."
}

# fetch_modules MODULE...: `go mod download`, with the module in the working directory
fetch_modules() {
  local status=0
  timeout --foreground --kill-after=10 "$download_limit" go mod download "$@" || status=$?
  if ((status == 124 || status == 137)); then say "$name: go mod download has not ended within $download_limit s: is the Go module proxy reachable?"; fi
  return "$status"
}

# while_running PID LABEL: shows that PID is at work, until it ends: a live line on a terminal, a line each 30 s elsewhere
while_running() {
  local pid=$1 label=$2 start=$SECONDS shown=0
  while kill -0 "$pid" 2>/dev/null; do
    if [[ -t 2 ]]; then
      printf '\r\033[K  %-28s %4d s' "$label" $((SECONDS - start)) >&2
    elif ((SECONDS - start >= shown + 30)); then
      shown=$((SECONDS - start))
      say "  $label: $shown s so far"
    fi
    sleep 0.2
  done
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
}

# build FOLDER PROGRAM PACKAGE [LDFLAG...]: FOLDER holds go.mod. Further flags of `go build` come from the array build_flags.
build() {
  local folder=$1 program=$2 package=$3 start=$SECONDS ldflags
  ldflags="-s -w ${*:4}"
  mkdir -p "$(dirname "$work/$program")"
  (cd "$folder" && exec timeout --kill-after=10 "$build_limit" go build "${flags[@]}" ${build_flags[@]+"${build_flags[@]}"} -ldflags="$ldflags" -o "$work/$program" "$package") >"$work/log" 2>&1 &
  building=$!
  while_running "$building" "$program"
  wait "$building" || { cat "$work/log" >&2; die "building $program failed after $((SECONDS - start)) of at most $build_limit s, see above (is the Go module proxy reachable?)"; }
  building=
  say "  $(printf '%-28s %4d s' "$program" $((SECONDS - start)))"
}

# stamp MODULE: -X flags with the version of Kubernetes that MODULE pins; without them its programs say v0.0.0-master
stamp() {
  local kubernetes major minor version=k8s.io/component-base/version
  kubernetes=$(pinned "$1" k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${kubernetes#v}"
  echo "-X $version.gitVersion=$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor"
}

# in_cache CACHE TARGET COMPLETE BUILD: builds TARGET, a folder in CACHE, unless `COMPLETE TARGET` holds. BUILD fills $work.
in_cache() {
  local cache=$1 target=$2 complete=$3 build=$4 start
  if "$complete" "$target"; then return; fi
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  if ! flock -n 9; then
    say "Another $name is building, waiting for it"
    flock -w "$lock_limit" 9 || die "another $name has been building for $lock_limit s: end it, it has locked $cache/lock"
  fi
  if "$complete" "$target"; then return; fi
  rm -rf "$target" "$cache"/.building.* # left by a build that was killed; nobody else builds, the lock is ours
  start=$SECONDS
  work=$(mktemp -d "$cache/.building.XXXXXX")
  trap '[[ -z ${building:-} ]] || kill "$building" 2>/dev/null || true; rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  "$build"
  rm -f "$work/log"
  chmod 755 "$work"
  # A folder of the final name is always whole: it appears by rename.
  mv -T "$work" "$target"
  trap - EXIT INT TERM
  say "Built in $((SECONDS - start)) s: $target"
}
