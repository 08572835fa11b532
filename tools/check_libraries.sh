#!/bin/sh
# The pipeline library and the tests of its rooms load no library of models and have no symbol of them.
# Prints one line per violation and exits with 1.
# usage: check_libraries.sh FILE...
models='sluice::(causal_lm|read_model_spec|load_graph|Tokenizer|TokenData|read_tokenizer|detail::families|detail::graph_)'
bad=0
for file; do
  if readelf -d "$file" | grep -E 'NEEDED.*libsluice_models'; then
    echo "$file: it loads a library of models"
    bad=1
  fi
  if nm -C "$file" | grep -m 3 -E "$models"; then
    echo "$file: it has symbols of models"
    bad=1
  fi
done
exit $bad
