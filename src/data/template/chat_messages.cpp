#include "data/template/chat_messages.h"

#include "data/template/template_error.h"

namespace sluice::data::jinja {
namespace {

Json chat_message(const Json& message) {
  const Json* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Json* found = message.find(name);
    if (!reasoning && found && !found->is_null()) reasoning = found;
  }
  if (!reasoning) return message;
  Json made = Json::object();
  const Json* thinking = message.find("thinking");
  made.add("thinking", thinking ? *thinking : *reasoning);
  for (const Json::Member& member : message.members()) {
    if (member.key == "thinking") continue;
    made.add(member.key, member.key == "reasoning_content" ? *reasoning : member.value);
  }
  if (!made.contains("reasoning_content")) made.add("reasoning_content", *reasoning);
  return made;
}

}  // namespace

Json chat_messages(const Json& messages) {
  if (!messages.is_array()) fail("the messages are not a list");
  Json made = Json::array();
  for (const Json& message : messages.list()) {
    if (!message.is_object()) fail("a message is not an object");
    made.push_back(chat_message(message));
  }
  return made;
}

}  // namespace sluice::data::jinja
