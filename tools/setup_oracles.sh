#!/usr/bin/env bash
# Makes .oracles: a Python with what the oracle tests (tests/oracle) compare with, in the versions of
# tools/oracles.txt. Its torch is that of .venv, of python3 on the PATH, or, where neither has the release
# that tools/setup.sh installs, a copy of its own. A second run returns at once. No build and no other test
# needs it: without it the oracle tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

list=tools/oracles.txt
venv=.oracles
stamp=$venv/setup.stamp
torch_release=$(sed -n 's/^torch_release=//p' tools/setup.sh)

say() { printf 'setup_oracles: %s\n' "$*" >&2; }
die() { printf 'setup_oracles: error: %s\n' "$*" >&2; exit 1; }

# The folder in which this Python has the release of torch; "" where it has another or none.
torch_folder() {
  "$1" - "$torch_release" 2>/dev/null <<'PYTHON' || true
import importlib.metadata as metadata, sys
found = metadata.distribution("torch")
if found.version.split("+")[0] == sys.argv[1]:
    print(found.locate_file(""))
PYTHON
}

fingerprint() { cat "$list" tools/setup_oracles.sh tools/setup.sh | cksum; }

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
  $venv/bin/python -c 'import peft, sentencepiece, tokenizers, torch, transformers' >&2 ||
    die "what was installed into $venv cannot be imported (above)"
  { fingerprint; printf '%s\n' "$folder"; } >$stamp
}

main
