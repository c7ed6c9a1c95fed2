#!/bin/bash
# Sets the project up: a virtual environment with the locked dependencies, and a Java runtime for Spark.
# setup.sh [runtime | test | docs | s3 | audit]: test also installs the tools that some tests need (tshark, iproute2,
# tcpdump, openssl, ethtool, chromium); docs sets up .venv-docs alone, for the documentation, s3 .venv-s3, an object store
# to test against, and audit .venv-audit, which looks up the known faults of packages.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-runtime}

may_install() { command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }
apt_install() {
  local sudo=""; [ "$(id -u)" = 0 ] || sudo="sudo -n"
  [ -n "${apt_updated:-}" ] || { $sudo apt-get update -q >/dev/null; apt_updated=yes; }
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

# a package is missing when its command is: "command:package"
need() {
  local missing=() pair
  for pair in "$@"; do command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}"); done
  [ ${#missing[@]} = 0 ] && return 0
  if may_install; then echo "setup: installing ${missing[*]}"; apt_install "${missing[@]}"
  else echo "setup: please install ${missing[*]} (on Debian: sudo apt-get install ${missing[*]})" >&2; return 1; fi
}

python=${PYTHON:-}
for candidate in python3 python3.11 python3.12 python3.13; do
  [ -n "$python" ] && break
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; fi
done
if [ -z "$python" ]; then
  need python3:python3 || exit 1
  python=python3
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: kafkascope needs Python 3.11 or newer" >&2; exit 1; }

if [ "$what" = docs ] || [ "$what" = s3 ] || [ "$what" = audit ]; then
  own=.venv-$what
  wanted=$("$python" -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")' "$what")
  if [ "$(cat "$own/.installed" 2>/dev/null)" != "$wanted" ]; then
    echo "setup: environment for $what in $own"
    "$python" -m venv "$own"
    "$own/bin/pip" install -q --disable-pip-version-check -r /dev/stdin <<<"$wanted"
    echo "$wanted" >"$own/.installed"
  fi
  exit
fi

stamp=.venv/.locked
if [ ! -x .venv/bin/python ] || ! cmp -s requirements.lock "$stamp"; then
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    may_install || { echo "setup: please install python3-venv" >&2; exit 1; }
    echo "setup: installing python3-venv"; apt_install python3-venv
  fi
  echo "setup: virtual environment in .venv (some minutes the first time)"
  "$python" -m venv .venv
  # The lock has every package: pip is not to look for others, as it takes what was released since into account for extras.
  .venv/bin/pip install -q --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements.lock
  .venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null || true  # by all cores; some packages have files for other Pythons
  .venv/bin/pip install -q --disable-pip-version-check "setuptools>=77"
  .venv/bin/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
  cp requirements.lock "$stamp"
  fresh=yes
fi

# Spark wants Java 17 or newer; everything else works without it, so its absence is told and is no failure.
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' || true)
if [ "${version:-0}" -lt 17 ]; then
  if may_install; then echo "setup: installing a Java 17 runtime for Spark"; apt_install openjdk-17-jre-headless
  else echo "setup: Spark needs Java 17 or newer: please install it (on Debian: sudo apt-get install openjdk-17-jre-headless); all that is not Spark works without" >&2; fi
fi

# Those who test compile kernels beside what needs none (`make kernels`).
if [ -n "${fresh:-}" ] && [ "$what" = runtime ]; then .venv/bin/kafkascope warm || true; fi

if [ "$what" = test ]; then
  if may_install; then need tshark:tshark ip:iproute2 tcpdump:tcpdump openssl:openssl ethtool:ethtool chromium:chromium || true; fi
fi
