#!/usr/bin/env bash
# Prepares build/: checks the compiler and libraries, installs missing ones, finds LibTorch or installs it
# into .venv, and configures the release preset. A second run returns at once.
#
#   TORCH_DIR=/path/to/libtorch tools/setup.sh     use this LibTorch
#   tools/setup.sh plan                            the planner alone, in build-plan/, without LibTorch
#
# Without TORCH_DIR it uses the torch of python3 on the PATH if that is new enough, otherwise torch in .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_release=2.13.0
preset=release build=build
[ "${1:-}" != plan ] || preset=plan build=build-plan
stamp=$build/setup.stamp

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# The stamp of a finished setup has three lines: a fingerprint, the LibTorch that was found, and the given
# TORCH_DIR. That TORCH_DIR stays in use until another one is given.
fingerprint() { printf '%s %s\n' "$PWD" "$(cksum <tools/setup.sh)"; }
known='' libtorch='' given=''
[ ! -f $stamp ] || { read -r known && read -r libtorch && read -r given; } <$stamp || true
TORCH_DIR=${TORCH_DIR:-$given}
export TORCH_DIR

is_ready() {
  [ -f $build/build.ninja ] && [ "$known" = "$(fingerprint)" ] && [ "$given" = "$TORCH_DIR" ] &&
    { [ $preset = plan ] || [ -f "$libtorch/include/ATen/ATen.h" ]; }
}

# ---- compiler, tools and header libraries ----

# name of the program or header | Debian package
needed='
g++|g++
cmake|cmake
ninja|ninja-build
python3|python3
venv|python3-venv
nlohmann/json.hpp|nlohmann-json3-dev
toml++/toml.h|libtomlplusplus-dev
CLI/CLI.hpp|libcli11-dev
yaml-cpp/yaml.h|libyaml-cpp-dev
xxhash.h|libxxhash-dev
zlib.h|zlib1g-dev
gloo/types.h|libgloo-dev
gtest/gtest.h|libgtest-dev
benchmark/benchmark.h|libbenchmark-dev
'
[ $preset = release ] || needed=$(printf '%s' "$needed" | grep -v '^gloo\|^benchmark\|^venv')

python_has() { python3 -c "from importlib.util import find_spec; exit(not find_spec('$1'))" 2>/dev/null; }

has() {
  case $1 in
    *.h | *.hpp) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | g++ -E -x c++ - >/dev/null 2>&1 ;;
    python3) [ -n "$TORCH_DIR" ] || command -v python3 >/dev/null ;;
    venv) [ -n "$TORCH_DIR" ] || [ -x .venv/bin/pip ] || python_has torch || python_has ensurepip ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local name package
  while IFS='|' read -r name package; do
    [ -z "$name" ] || has "$name" || printf '%s ' "$package"
  done <<<"$needed"
}

install_packages() {
  if ! command -v apt-get >/dev/null; then
    die "missing, by their Debian names: $*; install them with the package manager of this system"
  fi
  if [ "$(id -u)" != 0 ]; then
    printf 'setup: these packages are missing; install them, then run make again:\n\n  sudo apt-get install -y %s\n\n' "$*" >&2
    exit 1
  fi
  say "installing $*"
  export DEBIAN_FRONTEND=noninteractive
  local install="apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $*"
  # The package lists of a fresh container are empty, those of an old machine are stale.
  # shellcheck disable=SC2086
  { ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 && $install; } >&2 || { apt-get update -qq && $install; } >&2 ||
    die "the packages could not be installed (above); Debian 12, Ubuntu 24.04 and later have them all"
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -1)" = 3.25 ] ||
    die "cmake $version is too old: 3.25 or newer is needed (Debian 12, Ubuntu 24.04, or pip install cmake)"
}

# ---- LibTorch ----

make_venv() {
  [ -x .venv/bin/pip ] && return
  python_has ensurepip || install_packages python3-venv
  rm -rf .venv
  python3 -m venv .venv >&2 || die "python3 -m venv .venv failed (above)"
}

# Installs the CPU build if the configured index or PyTorch's own offers it. Otherwise installs the index's
# build, which has CUDA and takes gigabytes.
install_torch() {
  make_venv
  local pip=".venv/bin/pip --disable-pip-version-check install --retries 1 --timeout 20"
  say "installing torch $torch_release into .venv"
  # shellcheck disable=SC2086
  $pip "torch==$torch_release+cpu" >&2 2>/dev/null ||
    $pip "torch==$torch_release+cpu" --extra-index-url https://download.pytorch.org/whl/cpu >&2 2>/dev/null ||
    { say "no CPU build of torch $torch_release at hand: taking the default build, which is large"
      $pip "torch==$torch_release" >&2; } ||
    die "torch $torch_release could not be installed (above); unpack a LibTorch from https://pytorch.org and set TORCH_DIR to it"
}

# Prints LibTorch's folder, or fails with CMake's reason in one line.
find_libtorch() {
  local reasons
  reasons=$(mktemp)
  if cmake -DLibTorch_VENV="$PWD/.venv" -P cmake/FindLibTorch.cmake 2>"$reasons"; then
    cat "$reasons" >&2
    rm "$reasons"
  else
    sed '/^CMake Error/d; /^Call Stack/,$d; /^$/d; s/^ */ /' "$reasons" | tr -d '\n' | sed 's/^ /setup: /; s/$/\n/' >&2
    rm "$reasons"
    return 1
  fi
}

main() {
  is_ready && return
  local packages
  packages=$(missing_packages)
  # shellcheck disable=SC2086
  [ -z "$packages" ] || install_packages $packages
  check_cmake

  if [ $preset = plan ]; then
    libtorch=
  elif [ -n "$TORCH_DIR" ]; then
    libtorch=$(find_libtorch 2>&1) || die "${libtorch#setup: }"
  elif ! libtorch=$(find_libtorch); then
    install_torch
    libtorch=$(find_libtorch) || die "torch was installed into .venv, but holds no LibTorch"
  fi
  [ $preset = plan ] || say "LibTorch: $libtorch"

  mkdir -p $build
  cmake --fresh --preset $preset -DTORCH_DIR="$libtorch" >$build/setup.log 2>&1 ||
    { cat $build/setup.log >&2; die "cmake failed (above)"; }
  { fingerprint; printf '%s\n' "$libtorch" "$TORCH_DIR"; } >$stamp
}

main
