// Converts between enumerators and words, with one complete table per enum.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice::detail {

template <typename Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

template <typename Enum>
std::string word_of(const Words<Enum>& table, Enum value) {
  for (const auto& [word, meaning] : table) {
    if (meaning == value) return word;
  }
  return {};
}

template <typename Enum>
std::vector<std::string> words_in(const Words<Enum>& table) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : table) words.push_back(word);
  return words;
}

template <typename Enum>
Enum meaning_of(const Words<Enum>& table, const std::string& word) {
  for (const auto& [text, meaning] : table) {
    if (text == word) return meaning;
  }
  return {};
}

// Parses a word that a user wrote at `where`. Throws Error(kUsage) "unknown <noun> '..'" with the
// nearest word.
template <typename Enum>
Enum parse_word(const Words<Enum>& table, const std::string& word, const std::string& noun,
                const std::string& where) {
  for (const auto& [text, meaning] : table) {
    if (text == word) return meaning;
  }
  throw Error(ErrorKind::kUsage, {.what = "unknown " + noun + " '" + word + "'",
                                  .where = where,
                                  .remedy = suggest_name(word, words_in(table))});
}

}  // namespace sluice::detail
