// A chat template, rendered with a small conversation.
#include "data/template/chat_program.h"

#include "base/strict_json.h"
#include "fuzz/require.h"
#include "sluice/error.h"

extern "C" int fuzz_chat_program(const std::uint8_t* data, std::size_t size) {
  using sluice::test::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const sluice::Json variables = sluice::parse_strict_json(
      R"({"messages": [{"role": "user", "content": "What is 3 + 4?"},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "add",
           "arguments": {"a": 3, "b": 4.5}}}]}], "tools": null, "add_generation_prompt": true,
          "bos_token": "<s>"})",
      "fuzz", sluice::KeyOrder::kAsWritten);
  try {
    const sluice::data::jinja::ChatProgram program(text, "fuzz");
    const auto rendered = program.render(variables);
    std::size_t last = 0;
    for (const auto& [begin, end] : rendered.generated) {
      require(begin >= last && end >= begin && end <= rendered.text.size());
      last = end;
    }
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput && error.where().starts_with("fuzz"));
  }
  return 0;
}
