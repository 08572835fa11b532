#!/usr/bin/env bash
# Checks sluice on this machine's GPUs and writes one report: versions of the build, tests that ran, whether
# layouts have the same bits, and a step beside torch's. Without a GPU it builds, runs what needs none, and
# reports that.
#
#   TORCH_DIR=/path/to/torch tools/gpu_check.sh [REPORT]        default: build-gpu/report.txt
#   HEADERS=/path            a folder of headers that the compiler would not find (gloo/, nlohmann/, toml++/, CLI/, xxhash.h)
#   PYTHON=/path/to/python   with torch, for the step beside torch's eager one; default: python3
#   SECONDS_A_RUN=540        time limit for building in one call
#
# Downloads nothing. If the time limit ends a build, the script exits with 75, and the next call continues. Call it
# again until the report is there.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build-gpu
report=${1:-$build/report.txt}
python=${PYTHON:-python3}
limit=${SECONDS_A_RUN:-540}
programs='device_tests sluice_cli sluice_run_cli'
mkdir -p $build

if [ ! -f $build/build.ninja ]; then
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release ${HEADERS:+-DCMAKE_INCLUDE_PATH="$HEADERS"} \
    ${HEADERS:+-DCMAKE_CXX_FLAGS="-isystem $HEADERS"} >$build/configure.log 2>&1 ||
    { tail -n 20 $build/configure.log >&2; echo "gpu_check: cmake failed (above)" >&2; exit 1; }
fi
status=0
# shellcheck disable=SC2086
timeout "$limit" ninja -C $build $programs >$build/build.log 2>&1 || status=$?
if [ $status = 124 ]; then
  tail -n 1 $build/build.log >&2
  echo "gpu_check: the build is not done after $limit s; call this again" >&2
  exit 75
elif [ $status != 0 ]; then
  tail -n 30 $build/build.log >&2
  echo "gpu_check: the build failed (above)" >&2
  exit 1
fi

work=$build/check
rm -rf $work && mkdir -p $work
sluice=$build/bin/sluice
draft=$work/report.txt
failed=0
say() { printf '%s\n' "$*" | tee -a $draft; }
# Adds a line to the report: a label, and whether the command succeeded. Keeps the output in the folder.
try() {
  local name=$1 log=$work/$2.log
  shift 2
  if "$@" >"$log" 2>&1; then say "ok      $name"; else say "FAILED  $name ($log)"; failed=1; fi
}

say "sluice $(git rev-parse --short HEAD 2>/dev/null || echo 'without git'), $(date -u +%Y-%m-%d)"
gpus=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null || true)
say "GPUs: ${gpus:-none}"
say "LibTorch: $(sed -n 's/^LibTorch_DIR:PATH=//p' $build/CMakeCache.txt), $("$sluice" --version | tr '\n' ' ')"

if [ -f $build/lib/libsluice_nccl.so ]; then
  say "NCCL: the plug-in is built with $(sed -n 's/^NCCL_INCLUDE_DIR:PATH=//p' $build/CMakeCache.txt)"
else
  say "NCCL: no plug-in, since nccl.h or CUDA's headers are missing (SLUICE_NCCL_HEADERS, docs/gpus.md)"
fi

timeout 500 $build/bin/device_tests >$work/tests.log 2>&1 || failed=1
say "tests: $(grep -c '^\[       OK' $work/tests.log || true) passed," \
  "$(grep -c '^\[  SKIPPED \] .*ms)' $work/tests.log || true) skipped, $(grep -c '^\[  FAILED  \] .*ms)' $work/tests.log || true) failed"
grep '^\[  FAILED  \] .*ms)' $work/tests.log | tee -a $draft || true

if [ -z "$gpus" ]; then
  say "no GPU: training on one was not tried"
else
  for file in include/sluice/*.h; do cat "$file"; done >$work/text.txt
  cat >$work/config.json <<'JSON'
{"model_type": "llama", "vocab_size": 256, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
 "num_attention_heads": 16, "num_key_value_heads": 16, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
 "max_position_embeddings": 512, "rope_theta": 10000.0, "hidden_act": "silu", "initializer_range": 0.02}
JSON
  cat >$work/run.toml <<'TOML'
model.config = "config.json"
data = {files = ["text.txt"], tokenizer = "bytes"}
training = {steps = 12, local_batch_size = 8, microbatch_size = 2, seq_len = 256, device = "cuda"}
optimizer.lr = 1e-4
checkpoint = {folder = "checkpoint", resume = "none"}
TOML
  losses() { sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' "$work/$1/metrics.jsonl" 2>/dev/null; }
  seconds() { sed 's/.*"step_seconds":\([^,}]*\).*/\1/' "$work/$1/metrics.jsonl" | sort -g | sed -n 6p; }
  train() { SLUICE_SHARE_DEVICE=1 timeout 300 "$sluice" train $work/run.toml --metrics.folder="$work/$1" "${@:2}"; }
  launch() {
    SLUICE_SHARE_DEVICE=1 timeout 300 "$sluice" launch -n 2 -- train $work/run.toml --metrics.folder="$work/$1" "${@:2}"
  }
  # Whether losses and norms are the same, digit for digit.
  same() { [ -n "$(losses "$1")" ] && [ "$(losses "$1")" = "$(losses "$2")" ]; }
  one='--parallelism.pipeline_parallel_degree=1' two='--parallelism.pipeline_parallel_degree=2'
  zb='--parallelism.pipeline_parallel_schedule=ZBVZeroBubble'
  try 'trains on one GPU' one train one $one
  try 'trains on it with two ranks that are threads' two train two $two
  try 'the same bits as one rank' two_bits same one two
  try 'trains with ZBVZeroBubble' zb train zb $two $zb
  try 'the same bits as one rank' zb_bits same one zb
  try 'trains with two processes over Gloo' gloo launch gloo $two
  try 'the same bits as one rank' gloo_bits same one gloo
  if [ "$(wc -l <<<"$gpus")" -ge 2 ]; then
    nccl() {
      timeout 300 "$sluice" launch -n 2 -- train $work/run.toml --metrics.folder="$work/$1" --parallelism.transport=nccl "${@:2}"
    }
    try 'trains with two processes over NCCL' nccl nccl nccl $two
    try 'the same bits as one rank' nccl_bits same one nccl
  else
    say "one GPU: NCCL between two was not tried"
  fi
  try 'trains with two replicas and ZeRO-3' zero3 train zero3 $one --parallelism.data_parallel_degree=2 \
    --parallelism.zero3=true --training.local_batch_size=4
  try 'trains under bfloat16 autocast' bf16 train bf16 $one --training.mixed_precision=bfloat16
  try 'trains on the CPU for comparison' cpu train cpu $one --training.device=cpu --training.steps=2
  say "first losses: GPU $(losses one | head -n 1), CPU $(losses cpu | head -n 1)"
  say "median step: one rank $(seconds one) s, bfloat16 $(seconds bf16) s"
  say "$("$python" tools/gpu_step.py $work/config.json 2>&1 | tail -n 1)"
fi
[ $failed = 0 ] && say "all that ran passed" || say "something failed: the logs are in $work"
cp $draft "$report"
exit $failed
