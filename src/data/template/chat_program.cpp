#include "data/template/chat_program.h"

#include "base/format.h"
#include "data/template/renderer.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

std::uint64_t bytes_in(const Json& json) {
  std::uint64_t bytes = 8;
  if (json.is_string()) bytes += json.text().size();
  if (json.is_array()) {
    for (const Json& item : json.list()) bytes += bytes_in(item);
  }
  if (json.is_object()) {
    for (const Json::Member& member : json.members())
      bytes += member.key.size() + bytes_in(member.value);
  }
  return bytes;
}

}  // namespace

ChatProgram::ChatProgram(std::string_view text, std::string name)
    : name_(std::move(name)), num_bytes_(text.size()) {
  if (valid_utf8_prefix(text) != text.size()) {
    throw Error(ErrorKind::kInput, {.what = "the chat template is not valid UTF-8",
                                    .where = name_,
                                    .remedy = "save the template as UTF-8"});
  }
  parsed_ = parse_template(text, name_);
}

Rendered ChatProgram::render(const Json& variables) const {
  Renderer renderer(num_bytes_ + bytes_in(variables));
  try {
    return renderer.render(parsed_.body, variables);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw error.at(formatted("{}:{}", name_, renderer.line()));
  }
}

}  // namespace sluice::data::jinja
