#!/bin/sh
# Checks that every folder includes only what it may (CONTRIBUTING.md, "How the code is cut"):
#   base <- plan <- {kind, report}, base <- job: sluice_plan; kind <- family <- archive, base <- data: sluice_models_plan;
#   {kind, report, job, data} <- config, job <- launch: sluice_front
#   device <- layer <- {io, comm}; nccl <- comm <- parallel <- engine <- {optim, checkpoint} <- train: sluice;
#   parallel <- ops <- model, graph <- model: sluice_models; ops/kernels sees base alone, and optim may see it
#   {sluice_front, train, model} <- command <- apps. No room but model and graph sees family, archive or graph; the
#   table of kinds (config/model_kinds.cpp) does.
# A header of include/sluice belongs to the lowest
# folder that may see all that it includes, so it is enough that torch-free ones name no torch, and
# that an installed header includes only installed headers. The commands that run a model include
# these, command/job.h and config/run_config.h. CLI11 is seen by one source.
# Prints one line a violation; exit 1.
# usage: check_includes.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 2
files=$(find include src apps \( -name '*.h' -o -name '*.cpp' \) 2>/dev/null | sort)
# shellcheck disable=SC2086
awk '
function fail(reason) { printf "%s:%d: %s: %s\n", FILENAME, FNR, reason, $0; ++bad }
BEGIN {
  may["base"]    = "base"
  may["plan"]    = "base plan"
  may["job"]     = "base job"
  may["data"]    = "base data"
  may["kind"]    = "base plan data kind"
  may["family"]  = may["kind"] " family"
  may["archive"] = may["family"] " archive"
  may["report"]  = "base plan report"
  may["launch"]  = "base job launch"
  may["config"]  = "base plan data kind job report launch config"
  core = "base plan kind job "
  may["device"] = core "device"
  may["layer"]  = core "data device layer"  # data: kIgnoredLabel alone
  may["io"]     = may["layer"] " io"
  may["nccl"]   = "nccl"
  may["comm"]   = may["layer"] " nccl comm"
  may["parallel"] = may["layer"] " comm parallel"
  may["engine"] = may["parallel"] " engine"
  may["optim"]  = may["engine"] " optim kernels"
  may["checkpoint"] = may["engine"] " io checkpoint"
  may["train"]  = may["optim"] " io checkpoint train"
  may["ops"]    = may["parallel"] " ops kernels"
  may["graph"]  = may["layer"] " family archive graph"
  may["model"]  = may["ops"] " family archive graph model"
  may["command"] = may["train"] " " may["config"] " ops model command"
  may["kinds"] = may["config"] " family archive"
  # The folder that implements a public header: where a source or a folder has its name, or begins
  # with it (safetensors_reader.cpp), else here.
  owner["options"] = owner["plan"] = owner["simulate"] = owner["layout"] = "plan"
  owner["data"] = "data"; owner["lora"] = "kind"  # implemented in family, and about no family
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
  plan_program = FILENAME == "apps/sluice/main.cpp" || FILENAME ~ /^apps\/sluice\/(split|schedule|plan|config|launch|debug|data|init|metrics|report|compare|tokenize)_command/
}
/^[ \t]*#[ \t]*include/ {
  target = $2; sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
  is_torch = target ~ /^<(ATen|c10|torch|caffe2|gloo)\//
  if (is_torch && (side == "base" || side == "plan" || side == "family" || side == "report" || side == "data" || side == "config" || side == "launch" || side == "kind" || side == "job" || side == "archive" || kernels || plan_program)) fail("a torch header in a torch-free file")
  if (target ~ /^<nlohmann\// && FILENAME != "src/base/json_text.cpp") fail("JSON is base/json.h: its library is for src/base/json_text.cpp alone")
  if (target ~ /^<CLI\// && FILENAME != "apps/sluice/command_line.cpp") fail("command_line.cpp alone sees CLI11")
  if (target !~ /^"/) next
  gsub(/"/, "", target)
  if (installed && target !~ /^sluice\//) { fail("an installed header may include installed headers only"); next }
  if (run_program && target ~ /\// && target !~ /^(sluice\/|base\/(log|print).h$|command\/job.h$|config\/run_config.h$)/) fail("a command of a run includes public headers, base/log.h, base/print.h, command/job.h and config/run_config.h only")
  if (side == "") next
  if (target ~ /^sluice\//) { name = target; sub(/^sluice\//, "", name); sub(/^parts\//, "", name); sub(/\.h$/, "", name); folder = owner[name] }
  else { folder = target; if (folder !~ /\//) next; sub(/\/.*/, "", folder) }
  if (target ~ /^ops\/kernels\// && !kernels) folder = "kernels"
  if (kernels && folder != "base" && target !~ /^ops\/kernels\//) fail("ops/kernels may include base alone")
  if (folder in may || folder == "kernels" || folder == "apps") {
    if (index(" " may[side] " ", " " folder " ") == 0) fail(side " may not include " folder)
  }
}
END { if (bad) print bad " violations"; exit bad > 0 }
' $files
