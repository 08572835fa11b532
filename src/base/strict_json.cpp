#include "base/strict_json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "sluice/error.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

std::string position_text(std::string_view text, std::size_t byte, const std::string& file_name) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return file_name + ":" + std::to_string(line) + ":" +
         std::to_string(std::max<std::size_t>(column, 1));
}

// Without "[json.exception.out_of_range.406] ".
std::string without_code(const std::string& text) {
  const std::size_t code = text.find("] ");
  return code == std::string::npos ? text : text.substr(code + 2);
}

// Without the library's own prefix "[json.exception.parse_error.101] parse error at ...: ".
std::string reason_of(const Json::parse_error& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

std::size_t find_nul(std::string_view json) { return json.find('\0'); }

nlohmann::json parse_strict_json(std::string_view text, const std::string& file_name) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= kMaxJsonDepth) {
          throw Error(ErrorKind::kInput, {.what = "JSON is nested deeper than " +
                                                  std::to_string(kMaxJsonDepth) + " levels",
                                          .where = file_name,
                                          .remedy = "name a JSON file made for this"});
        }
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys.back().insert(parsed.get<std::string>()).second) {
          throw Error(ErrorKind::kInput, {.what = "key '" + parsed.get<std::string>() +
                                                  "' appears twice in one JSON object",
                                          .where = file_name,
                                          .remedy = "keep one of them"});
        }
        break;
      default:
        break;
    }
    return true;
  };
  if (const std::size_t nul = find_nul(text); nul != std::string_view::npos) {
    throw Error(ErrorKind::kInput, {.what = "not valid JSON: a NUL character",
                                    .where = position_text(text, nul + 1, file_name),
                                    .remedy = "mend it there"});
  }
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorKind::kInput, {.what = "not valid JSON: " + reason_of(error),
                                    .where = position_text(text, error.byte, file_name),
                                    .remedy = "mend it there"});
  } catch (const Json::out_of_range& error) {
    throw Error(ErrorKind::kInput, {.what = "not valid JSON: " + without_code(error.what()),
                                    .where = file_name,
                                    .remedy = "write a smaller number"});
  }
}

}  // namespace sluice
