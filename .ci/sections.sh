# Functions of .ci/run and .ci/whole.
export NO_COLOR=1 TURBO_TELEMETRY_DISABLED=1 npm_config_loglevel=error

# Prints the name of a section; the last line of a run lists the seconds that each took.
times=
section() {
  times="${times:+$times $((SECONDS - section_start)) s, }$1:"
  section_start=$SECONDS
  printf '\n== %s (%ss)\n' "$1" "$SECONDS"
}

# Installs what tests start for real or link to (Chromium for the page of mtl watch, too). They skip without it, which CI does
# not allow. And a compiler cache: native code is compiled once more from the packed packages, elsewhere, so paths are
# taken relative to this folder.
install_needed() {
  local needed='libgloo-dev iproute2 openmpi-bin slurmctld slurmd slurm-client munge ccache chromium'
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null && ! dpkg -s $needed > /dev/null 2>&1; then
    section "packages: $needed"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $needed > /dev/null
  fi
  if command -v ccache > /dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD"
  fi
}

finish() {
  section 'done'
  printf '%s %s s\n' "${times% done:}" "$SECONDS"
}
