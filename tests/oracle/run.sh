#!/bin/sh
# run.sh SCRIPT.py ARGUMENT ... runs a script of this folder with the Python of .oracles. Without .oracles it
# exits 77, which ctest counts as skipped. The check happens at test time, because `make test` needs no
# Python.
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../../.oracles/bin/python
if [ ! -x "$python" ]; then
  echo "skipped: no .oracles (tools/setup_oracles.sh)"
  exit 77
fi
script=$1
shift
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$python" "$here/$script" "$@"
