#include "config/import/references.h"

#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr int kMostReferences = 8;  // one inside the other
constexpr std::size_t kMostText = std::size_t{1} << 20;

struct References {
  const Json& settings;
  const std::string& file;
  std::size_t num_bytes = 0;

  Json resolve(const Json& value, int depth) {
    if (value.is_string()) return resolve_text(value.text(), depth);
    if (value.is_array()) {
      Json list = Json::array();
      for (const Json& element : value.list()) list.push_back(resolve(element, depth));
      return list;
    }
    if (!value.is_object()) return value;
    Json object = Json::object();
    for (const Json::Member& member : value.members())
      object.add(member.key, resolve(member.value, depth));
    return object;
  }

  Json resolve_text(const std::string& text, int depth) {
    std::string resolved;
    std::size_t from = 0;
    for (std::size_t at; (at = text.find("${", from)) != std::string::npos;) {
      const std::size_t end = text.find('}', at);
      if (end == std::string::npos) break;
      const Json* named = settings.find(text.substr(at + 2, end - at - 2));
      if (named && depth >= kMostReferences) refuse("the references form a circle");
      const bool is_whole = at == 0 && end + 1 == text.size();
      if (named && is_whole && !named->is_object() && !named->is_array())
        return resolve(*named, depth + 1);
      resolved += text.substr(from, at - from);
      if (named && (named->is_string() || named->is_number())) {
        const Json inner = resolve(*named, depth + 1);
        resolved += inner.is_string() ? inner.text() : inner.dump();
      } else {
        resolved += text.substr(at, end + 1 - at);
      }
      // Adding 1 also limits references to empty texts.
      if ((num_bytes += resolved.size() + 1) > kMostText) refuse("the references are too long");
      from = end + 1;
    }
    return Json(resolved + text.substr(from));
  }

  [[noreturn]] void refuse(const char* what) const {
    throw Error(ErrorKind::kUsage, {.what = what, .where = file, .remedy = "write the values out"});
  }
};

}  // namespace

Json with_references(const Json& settings, const std::string& file) {
  return References{settings, file}.resolve(settings, 0);
}

}  // namespace sluice::detail
