// Runs a chat template: the subset of Jinja that chat templates use, with the settings of
// transformers' apply_chat_template. Renders the same bytes as Jinja2, or throws.
//
//   const jinja::ChatProgram program(text, "model/chat_template.jinja");
//   program.render({{"messages", messages}, {"tools", nullptr}}).text
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/template/parser.h"

namespace sluice::data::jinja {

struct Rendered {
  std::string text;
  // Byte ranges of text that {% generation %} blocks wrote.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

// Const members are thread-safe.
class ChatProgram {
 public:
  // `name` stands in messages, before the line. Throws Error(kInput) for invalid UTF-8, wrong
  // syntax, and constructs that are not supported.
  ChatProgram(std::string_view text, std::string name);

  bool has_generation() const { return parsed_.has_generation; }
  bool reads_clock() const { return parsed_.reads_clock; }
  const std::string& name() const { return name_; }

  // `variables` is an object. Throws Error(kInput) at "name:line" for errors of the template, for
  // raise_exception(), and beyond 1,000 steps per byte of template and variables, 64 nested macros,
  // and 64 MiB of text.
  Rendered render(const Json& variables) const;

 private:
  const std::string name_;
  std::size_t num_bytes_;
  Parsed parsed_;
};

}  // namespace sluice::data::jinja
