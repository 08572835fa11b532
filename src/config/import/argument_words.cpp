#include "config/import/argument_words.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/import/yaml_reader.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Splits like a shell: quotes, backslashes, comments and continued lines.
std::vector<std::string> shell_words(const std::string& text, const std::string& file) {
  std::vector<std::string> words;
  std::string word;
  bool is_open = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < text.size()) {
        word += text[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_open = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[++i] == '\r' && i + 1 < text.size()) ++i;
      if (text[i] == '\n') continue;
      word += text[i];
      is_open = true;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (is_open || !word.empty()) words.push_back(word);
      word.clear();
      is_open = false;
    } else if (c == '#' && word.empty() && !is_open) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else {
      word += c;
    }
  }
  if (quote != 0)
    throw Error(ErrorKind::kUsage,
                {.what = "a quote is not closed", .where = file, .remedy = "close it"});
  if (is_open || !word.empty()) words.push_back(word);
  return words;
}

bool is_option(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

// Whether the word ends a shell command or redirects its output, such as "&&" or "2>&1".
bool is_shell_operator(const std::string& word) {
  const std::string_view rest = std::string_view(word).substr(
      word.starts_with('1') || word.starts_with('2') || word.starts_with('&') ? 1 : 0);
  return word == ";" || word == "|" || word == "||" || word == "&" || word == "&&" ||
         rest.starts_with('>');
}

}  // namespace

bool has_arguments(const std::string& text) {
  for (std::size_t at = 0; (at = text.find("--", at)) != std::string::npos; at += 2) {
    const bool starts_word =
        at == 0 || std::string(" \t\n").find(text[at - 1]) != std::string::npos;
    const char next = at + 2 < text.size() ? text[at + 2] : ' ';
    if (starts_word && ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))) return true;
  }
  return false;
}

Json parse_arguments(const std::string& text, const std::string& file) {
  const std::vector<std::string> words = shell_words(text, file);
  if (words.size() > kMaxYamlValues)
    throw Error(ErrorKind::kUsage, {.what = "the command line is too long", .where = file});
  std::size_t begin = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].ends_with(".py")) begin = i + 1;
  Json options = Json::object(), launcher = Json::array(), strays = Json::array();
  for (std::size_t i = 0; i < begin; ++i)
    if (is_option(words[i])) launcher.push_back(Json(words[i]));
  if (!launcher.empty()) options.add("launcher", std::move(launcher));
  for (std::size_t i = begin; i < words.size();) {
    if (!is_option(words[i])) {
      if (begin > 0 || !options.empty()) strays.push_back(Json(words[i]));
      ++i;
      continue;
    }
    const std::size_t equals = words[i].find('=');
    std::string name = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    Json values = Json::array();
    if (equals != std::string::npos) values.push_back(yaml_scalar(words[i].substr(equals + 1)));
    for (++i; equals == std::string::npos && i < words.size() && !is_option(words[i]) &&
              !is_shell_operator(words[i]);
         ++i)
      values.push_back(yaml_scalar(words[i]));
    if (options.contains(name)) options.erase(name);  // argparse takes the last one
    options.add(name, values.empty()       ? Json(true)
                      : values.size() == 1 ? values.list().front()
                                           : values);
  }
  if (!strays.empty()) options.add("arguments", std::move(strays));
  return options;
}

}  // namespace sluice::detail
