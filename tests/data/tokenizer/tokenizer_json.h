#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sluice/tokenizer.h"

namespace sluice::test {

// A vocabulary of a to z and the space, with merges that make "ab", "abc" and "bc".
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab;
  int id = 0;
  for (char c = 'a'; c <= 'z'; ++c) vocab[std::string(1, c)] = id++;
  for (const char* token : {" ", "ab", "bc", "abc", "<s>"}) vocab[token] = id++;
  return {{"version", "1.0"},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "b c", "ab c"}}}}};
}

inline Tokenizer parse(const nlohmann::json& file) {
  return Tokenizer::parse(file.dump(), "tokenizer.json");
}

inline nlohmann::json added_token(const std::string& content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace sluice::test
