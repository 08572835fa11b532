#include "config/unknown_key.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "config/key_table.h"
#include "config/peer_keys.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kVariablePrefix = "SLUICE_";

std::string without_separators(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
  return name;
}

std::string digits_of(std::string name) {
  std::erase_if(name, [](char c) { return c < '0' || c > '9'; });
  return name;
}

// False if a whole word or a number differs, as in "sequence_parallel_degree" and
// "expert_parallel_degree". A suggestion with another meaning would mislead.
bool is_typing_error(const std::string& name, const std::string& near) {
  if (near.empty() || digits_of(near) != digits_of(name)) return false;
  const std::string bare = without_separators(name);
  const std::size_t most = std::max<std::size_t>(bare.size() < 5 ? 1 : 2, bare.size() / 6);
  return edit_distance(bare, without_separators(near)) <= most;
}

std::string suggest_key(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest_name(name, names);
  return is_typing_error(name, near) ? "did you mean '" + near + "'?"
                                     : "one of: " + join(names, ", ");
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

const PeerKey* find_peer_variable(const std::string& variable) {
  for (const PeerKey& peer : peer_keys()) {
    std::string name(peer.name);
    std::replace(name.begin(), name.end(), '.', '_');
    const bool is_section = name.ends_with('*');
    if (is_section ? variable.starts_with(name.substr(0, name.size() - 1)) : variable == name) {
      return &peer;
    }
  }
  for (const std::string& section : section_names()) {
    if (!variable.starts_with(section + "_")) continue;
    if (const PeerKey* peer = find_peer_key(variable.substr(section.size() + 1))) return peer;
  }
  return nullptr;
}

}  // namespace

Error unknown_key(const std::string& section, const std::string& name, const std::string& where) {
  const std::string shown = section + (section.empty() || name.empty() ? "" : ".") + name;
  const auto refuse = [&](const char* noun, const std::string& remedy) {
    return Error(ErrorKind::kUsage, {.what = std::string("unknown ") + noun + " '" + shown + "'",
                                     .where = where,
                                     .remedy = remedy});
  };
  const std::string& key_name = name.empty() ? section : name;
  if (const PeerKey* peer = find_peer_key(shown)) return refuse("key", explain(*peer));
  std::vector<std::string> siblings, namesakes;
  for (const Key& key : key_table()) {
    if (key.name == key_name && is_typing_error(section, key.section))
      return refuse("key", "did you mean '" + key.full_name() + "'?");
    if (key.name == key_name) namesakes.push_back("'" + key.full_name() + "'");
    if (key.section == section) siblings.push_back(key.name);
  }
  const PeerKey* const of_section = find_peer_key(section + ".*");
  // A single word such as "name" often has another meaning in another library's section.
  const bool is_specific = key_name.find('_') != std::string::npos;
  if (!namesakes.empty() && (is_specific || !of_section))
    return refuse("key", "did you mean " + join(namesakes, " or ") + "?");
  if (const PeerKey* peer = find_peer_key(last_part(key_name))) {
    return refuse("key", explain(*peer));
  }
  if (!siblings.empty()) return refuse("key", suggest_key(name, siblings));
  if (of_section) return refuse(name.empty() ? "section" : "key", explain(*of_section));
  return Error(ErrorKind::kUsage, {.what = "unknown section '" + section + "'",
                                   .where = where,
                                   .remedy = suggest_name(section, section_names())});
}

Error unknown_variable(const std::string& variable, const std::vector<std::string>& others) {
  const auto refuse = [&](const std::string& remedy) {
    return Error(
        ErrorKind::kUsage,
        {.what = "unknown variable " + variable, .where = "environment", .remedy = remedy});
  };
  const std::string bare = to_lower(variable.substr(kVariablePrefix.size()));
  if (const PeerKey* peer = find_peer_variable(bare)) return refuse(explain(*peer));
  std::vector<std::string> names, variables;
  std::vector<std::string> siblings;
  for (const std::string& other : others) {
    names.push_back(to_lower(other.substr(kVariablePrefix.size())));
    variables.push_back(other);
  }
  for (const Key& key : key_table()) {
    variables.push_back(key.variable());
    names.push_back(key.section + "_" + key.name);
    const bool in_section = bare == key.section || bare.starts_with(key.section + "_");
    if (in_section) siblings.push_back(key.variable());
    if (bare == key.name) return refuse("did you mean '" + key.variable() + "'?");
  }
  if (const std::string near = nearest_name(bare, names);
      !near.empty() && is_typing_error(bare, near)) {
    const auto found = std::find(names.begin(), names.end(), near);
    return refuse("did you mean '" + variables[found - names.begin()] + "'?");
  }
  if (!siblings.empty()) return refuse("one of: " + join(siblings, ", "));
  return refuse("unset it, or name a key as SLUICE_SECTION_KEY: see `sluice config reference`");
}

}  // namespace sluice::detail
