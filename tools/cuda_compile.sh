#!/usr/bin/env bash
# Compiles the NCCL plug-in with headers from PyPI packages, which it downloads if missing (210 MB). Then
# calls the plug-in with the library of the same package to print NCCL's version. Needs no GPU, no CUDA
# toolkit and no LibTorch.
#
#   tools/cuda_compile.sh [FOLDER]        default: build-cuda; PYTHON=/path/to/python with pip
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-build-cuda}
python=${PYTHON:-python3}
packages='nvidia-nccl-cu13==2.29.7 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85'
mkdir -p "$folder"
if [ ! -f "$folder/headers/nvidia/nccl/include/nccl.h" ]; then
  # shellcheck disable=SC2086
  "$python" -m pip download --quiet --no-deps --dest "$folder" $packages
  for wheel in "$folder"/*.whl; do "$python" -m zipfile -e "$wheel" "$folder/headers"; done
fi
nvidia=$folder/headers/nvidia
${CXX:-g++} -std=c++20 -O1 -Wall -Wextra -Wpedantic -Wshadow -Werror -fPIC -shared -Isrc -isystem "$nvidia/nccl/include" \
  -isystem "$nvidia/cu13/include" -isystem "$nvidia/cu13/include/cccl" src/nccl/nccl_plugin.cpp \
  -o "$folder/libsluice_nccl.so"
cat >"$folder/version.cpp" <<'CPP'
#include <dlfcn.h>

#include <cstdio>

#include "nccl/nccl_table.h"

int main(int /*argc*/, char** argv) {
  if (!dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) return std::puts(dlerror()), 1;
  void* const plugin = dlopen(argv[2], RTLD_NOW);
  if (!plugin) return std::puts(dlerror()), 1;
  const auto get = reinterpret_cast<sluice::nccl::GetTable>(dlsym(plugin, sluice::nccl::kTableSymbol));
  int version = 0;
  if (!get || get()->get_version(&version) != sluice::nccl::kSuccess) return 1;
  std::printf("NCCL headers %d, library %d\n", get()->compiled_version, version);
  return version == get()->compiled_version ? 0 : 1;
}
CPP
${CXX:-g++} -std=c++20 -Isrc "$folder/version.cpp" -ldl -o "$folder/version"
"$folder/version" "$nvidia/nccl/lib/libnccl.so.2" "$(cd "$folder" && pwd)/libsluice_nccl.so"
