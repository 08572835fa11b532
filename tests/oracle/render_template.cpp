// Renders chat templates for tests/oracle/check_templates.py. Reads one JSON object a line from
// stdin: {"template": TEXT, "messages": [..], "variables": {..}}. Writes {"text": .., "generated":
// [[begin, end],
// ..]} (in bytes) or {"error": .., "where": ..}.
#include <iostream>
#include <string>

#include "base/strict_json.h"
#include "data/template/chat_messages.h"
#include "data/template/chat_program.h"
#include "sluice/error.h"

int main() {
  using sluice::Json;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer = Json::object();
    try {
      const Json task = sluice::parse_strict_json(line, "stdin", sluice::KeyOrder::kAsWritten);
      const sluice::data::jinja::ChatProgram program(task.at("template").text(), "template");
      Json variables = task.at("variables");
      variables["messages"] = sluice::data::jinja::chat_messages(
          task.contains("messages") ? task.at("messages") : Json::array());
      const auto rendered = program.render(variables);
      answer.add("text", rendered.text);
      Json generated = Json::array();
      for (const auto& [begin, end] : rendered.generated) {
        Json span = Json::array();
        span.push_back(begin);
        span.push_back(end);
        generated.push_back(std::move(span));
      }
      answer.add("generated", std::move(generated));
    } catch (const sluice::Error& error) {
      answer.add("error", error.fact());
      answer.add("where", error.where());
    }
    std::cout << answer.dump() << std::endl;
  }
}
