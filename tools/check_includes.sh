#!/bin/sh
# Checks that every folder includes only what it may (CONTRIBUTING.md, "How the code is cut"):
#   base <- {plan, data} <- kind <- family <- {archive, report} <- config, base <- launch (torch-free); device <- layer <- {io, comm}; nccl <- comm;
#   comm <- parallel <- ops; {ops, parallel} <- {model, optim, train}; ops/kernels sees base alone;
#   {layer, comm} <- parallel <- engine <- {optim, checkpoint} <- train <- command <- apps (checkpoint also sees io).
# The torch side may include the torch-free side. A header of include/sluice belongs to the lowest folder that may
# include everything in it. So it is enough to check that torch-free headers include no torch, and that installed
# headers include only installed headers. The commands that run a model include these, command/job.h and
# config/run_config.h. Only one source includes CLI11.
# Prints one line per violation and exits with 1.
# usage: check_includes.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 2
files=$(find include src apps \( -name '*.h' -o -name '*.cpp' \) 2>/dev/null | sort)
# shellcheck disable=SC2086
awk '
function fail(reason) { printf "%s:%d: %s: %s\n", FILENAME, FNR, reason, $0; ++bad }
BEGIN {
  may["base"]   = "base"
  may["plan"]   = "base plan"
  may["data"]   = "base data"
  may["kind"]   = "base plan data kind"
  may["family"] = "base plan data kind family"
  may["archive"] = "base plan data kind family archive"
  may["report"] = "base plan family report"
  may["config"] = "base plan data kind family report config"
  may["launch"] = "base launch"
  free = "base plan data kind family report config launch "
  may["device"] = free "device"
  may["layer"]  = free "device layer"
  may["ops"]    = free "device layer comm parallel ops"
  may["graph"]  = free "archive device layer graph"
  may["model"]  = free "archive device layer graph ops comm parallel model"
  may["io"]     = free "device layer io"
  may["nccl"]   = "nccl"
  may["comm"]   = free "device layer nccl comm"
  may["parallel"] = free "device layer comm parallel"
  may["engine"] = free "device layer comm parallel engine"
  may["optim"]  = free "device layer ops comm parallel engine optim"
  may["checkpoint"] = free "device layer io comm parallel engine checkpoint"
  may["train"]  = free "device layer ops comm parallel engine optim checkpoint train"
  may["command"] = free "device layer ops comm parallel engine optim checkpoint train model io command"
  may["kinds"] = may["config"] " archive"
  # The folder that implements a public header. By default a source or folder there has the name of the header
  # or a name that begins with it (safetensors_reader.cpp). Exceptions are listed here.
  owner["options"] = owner["plan"] = owner["simulate"] = owner["layout"] = "plan"
  owner["data"] = "data"
  owner["layer"] = owner["model"] = owner["observers"] = "layer"; owner["causal_lm"] = "model"; owner["transport"] = "comm"; owner["pipeline"] = "train"
  owner["run_options"] = "engine"; owner["tensor_parallel"] = "parallel"
  for (pass = 1; pass <= 2; pass++) {
    for (i = 1; i < ARGC; i++) {
      parts = split(ARGV[i], path, "/")
      if (path[1] != "src") continue
      for (k = 4 - pass; k <= parts; k++) {
        name = path[k]; sub(/\.cpp$/, "", name)
        if (pass == 2) sub(/_[^_]*$/, "", name)
        if (!(name in owner)) owner[name] = path[2]
      }
    }
  }
}
FNR == 1 {
  n = split(FILENAME, path, "/")
  side = ""
  if (path[1] == "src") side = path[2]
  if (path[1] == "src" && n > 2 && !(side in may)) fail("this folder has no row in tools/check_includes.sh")
  installed = path[1] == "include"
  if (installed) {
    name = path[n]; sub(/\.h$/, "", name)
    side = owner[name]
    if (side == "") { print FILENAME ": tools/check_includes.sh finds no folder that implements it"; ++bad }
  }
  if (FILENAME == "src/config/model_kinds.cpp") side = "kinds"  # the table of model kinds
  kernels = FILENAME ~ /^src\/ops\/kernels\//
  if (n == 2 || FILENAME == "include/sluice/sluice.h") side = ""
  run_program = FILENAME ~ /^apps\/sluice\/(run_main|eval_command|sample_command|train_command)/
  plan_program = FILENAME == "apps/sluice/main.cpp" || FILENAME ~ /^apps\/sluice\/(split|schedule|plan|config|launch|debug|data|init|metrics|report|tokenize)_command/
}
/^[ \t]*#[ \t]*include/ {
  target = $2; sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
  is_torch = target ~ /^<(ATen|c10|torch|caffe2|gloo)\//
  if (is_torch && (side == "base" || side == "plan" || side == "family" || side == "report" || side == "data" || side == "config" || side == "launch" || side == "kind" || side == "archive" || kernels || plan_program)) fail("a torch header in a torch-free file")
  if (target ~ /^<nlohmann\// && FILENAME != "src/base/json_text.cpp") fail("JSON is base/json.h: its library is for src/base/json_text.cpp alone")
  if (target ~ /^<CLI\// && FILENAME != "apps/sluice/command_line.cpp") fail("command_line.cpp alone sees CLI11")
  if (target !~ /^"/) next
  gsub(/"/, "", target)
  if (installed && target !~ /^sluice\//) { fail("an installed header may include installed headers only"); next }
  if (run_program && target ~ /\// && target !~ /^(sluice\/|base\/(log|print).h$|command\/job.h$|config\/run_config.h$)/) fail("a command of a run includes public headers, base/log.h, base/print.h, command/job.h and config/run_config.h only")
  if (side == "") next
  if (target ~ /^sluice\//) { name = target; sub(/^sluice\//, "", name); sub(/^parts\//, "", name); sub(/\.h$/, "", name); folder = owner[name] }
  else { folder = target; if (folder !~ /\//) next; sub(/\/.*/, "", folder) }
  if (kernels && folder != "base" && target !~ /^ops\/kernels\//) fail("ops/kernels may include base alone")
  if (folder in may || folder == "apps") {
    if (index(" " may[side] " ", " " folder " ") == 0) fail(side " may not include " folder)
  }
}
END { if (bad) print bad " violations"; exit bad > 0 }
' $files
