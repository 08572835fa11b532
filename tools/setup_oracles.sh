#!/usr/bin/env bash
# Makes .oracles, a Python environment with the packages that the oracle tests (tests/oracle) compare with, in
# the versions of tools/oracles.txt. It uses the torch of .venv or of python3 on the PATH. If neither has the
# release that tools/setup.sh installs, it installs its own copy. A second run returns at once. Only the
# oracle tests need .oracles, and they are skipped without it.
set -euo pipefail
cd "$(dirname "$0")/.."

list=tools/oracles.txt
templates=tools/oracle_templates.txt
venv=.oracles
stamp=$venv/setup.stamp
torch_release=$(sed -n 's/^torch_release=//p' tools/setup.sh)

say() { printf 'setup_oracles: %s\n' "$*" >&2; }
die() { printf 'setup_oracles: error: %s\n' "$*" >&2; exit 1; }

# Prints the folder where this Python has the required release of torch, or "" if it has another or none.
torch_folder() {
  "$1" - "$torch_release" 2>/dev/null <<'PYTHON' || true
import importlib.metadata as metadata, sys
found = metadata.distribution("torch")
if found.version.split("+")[0] == sys.argv[1]:
    print(found.locate_file(""))
PYTHON
}

fingerprint() { cat "$list" "$templates" tools/setup_oracles.sh tools/setup.sh | cksum; }

is_ready() {
  [ -x $venv/bin/python ] && [ -f $stamp ] && [ "$(head -1 $stamp)" = "$(fingerprint)" ] &&
    [ -d "$(sed -n 2p $stamp)/torch" ]
}

main() {
  is_ready && return
  local python folder=''
  for python in .venv/bin/python python3; do
    command -v $python >/dev/null || continue
    folder=$(torch_folder $python)
    [ -z "$folder" ] || break
  done
  [ -n "$folder" ] || python=python3
  command -v $python >/dev/null || die "no python3; make setup installs it"

  rm -rf $venv
  $python -m venv $venv >&2 || die "$python -m venv $venv failed (above)"
  local pip="$venv/bin/pip --disable-pip-version-check install --quiet --retries 1 --timeout 60"
  if [ -n "$folder" ]; then
    echo "$folder" >"$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  else
    say "installing torch $torch_release into $venv"
    $pip "torch==$torch_release+cpu" >&2 2>/dev/null ||
      $pip "torch==$torch_release+cpu" --extra-index-url https://download.pytorch.org/whl/cpu >&2 2>/dev/null ||
      $pip "torch==$torch_release" >&2 || die "torch $torch_release could not be installed (above)"
    folder=$(torch_folder $venv/bin/python)
    [ -n "$folder" ] || die "torch was installed into $venv, but in another release than $torch_release"
  fi
  say "installing $(grep -c == $list) packages into $venv"
  $pip -r $list >&2 || die "the packages of $list could not be installed (above); the oracle tests are skipped without them"
  $pip --no-deps -r $templates >&2 || die "the packages of $templates could not be installed (above)"
  $venv/bin/python -c 'import peft, sentencepiece, tokenizers, torch, transformers' >&2 ||
    die "what was installed into $venv cannot be imported (above)"
  { fingerprint; printf '%s\n' "$folder"; } >$stamp
}

main
