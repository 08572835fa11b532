#include "config/import/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

Error yaml_error(const std::string& what, const std::string& file, const YAML::Mark& mark,
                 const std::string& remedy) {
  return Error(ErrorKind::kUsage,
               {.what = what,
                .where = formatted("{}:{}:{}", file, mark.line + 1, mark.column + 1),
                .remedy = remedy});
}

std::size_t values_in(const Json& value) {
  std::size_t count = 1;
  if (value.is_array())
    for (const Json& element : value.list()) count += values_in(element);
  if (value.is_object())
    for (const Json::Member& member : value.members()) count += values_in(member.value);
  return count;
}

class YamlBuilder : public YAML::EventHandler {
 public:
  explicit YamlBuilder(std::string file) : file_(std::move(file)) {}

  YamlText take() { return std::move(text_); }
  bool is_empty() const { return is_empty_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!is_empty_)
      throw yaml_error("the file has a second document", file_, mark, "keep one document a file");
    is_empty_ = false;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, Json()); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw yaml_error("an alias names a value that contains it", file_, mark,
                       "write the value out");
    count(mark, values_in(found->second));
    add(mark, 0, found->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    require_known(mark, tag);
    const bool is_plain = tag == "?" || (tag.starts_with(kYamlTag) && tag != kTextTag);
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key) {
      start_member(mark, value);
      if (anchor != 0) anchors_[anchor] = Json(value);
    } else {
      add(mark, anchor, is_plain ? yaml_scalar(value) : Json(value));
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, Json::array());
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, Json::object());
  }
  void OnMapEnd() override {
    Open& map = open_.back();
    for (const Json& merged : map.merged) {
      for (const Json::Member& member : merged.members())
        if (!map.value.contains(member.key)) map.value.add(member.key, member.value);
    }
    end();
  }

 private:
  static constexpr std::string_view kYamlTag = "tag:yaml.org,2002:";
  static constexpr std::string_view kTextTag = "tag:yaml.org,2002:str";

  // A map or sequence whose end has not come yet.
  struct Open {
    Json value;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    std::string name;  // with dots; "" outside of maps
    std::string key = {};
    bool has_key = false;
    std::vector<Json> merged = {};  // values of "<<"
  };

  void require_known(const YAML::Mark& mark, const std::string& tag) const {
    static const std::vector<std::string> kTags = {"str",  "int", "float", "bool",
                                                   "null", "seq", "map"};
    if (tag.empty() || tag == "?" || tag == "!") return;
    for (const std::string& known : kTags)
      if (tag == std::string(kYamlTag) + known) return;
    throw yaml_error("the tag '" + tag + "' is not read", file_, mark, "write the plain value");
  }

  void count(const YAML::Mark& mark, std::size_t values) {
    num_values_ += values;
    if (num_values_ > kMaxYamlValues)
      throw yaml_error(formatted("more than {} values, with aliases expanded", kMaxYamlValues),
                       file_, mark, "a trainer's configuration has a few hundred");
  }

  void start_member(const YAML::Mark& mark, const std::string& key) {
    count(mark, 1);
    Open& map = open_.back();
    map.key = key;
    map.has_key = true;
    if (map.name != kNameless) text_.lines[name_of_member(map)] = mark.line + 1;
  }

  static std::string name_of_member(const Open& map) {
    return (map.name.empty() ? "" : map.name + ".") + map.key;
  }

  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Json value) {
    require_known(mark, tag);
    require_key(mark);
    count(mark, 1);
    if (open_.size() >= kMaxYamlDepth)
      throw yaml_error(formatted("nesting above {} levels", kMaxYamlDepth), file_, mark,
                       "a trainer's configuration has a few levels");
    std::string name;
    if (!open_.empty()) {
      const Open& outer = open_.back();
      const bool is_member = outer.value.is_object() && outer.name != kNameless;
      name = is_member && value.is_object() ? name_of_member(outer) : kNameless;
    }
    open_.push_back({std::move(value), anchor, mark, name});
  }

  void end() {
    Open ended = std::move(open_.back());
    open_.pop_back();
    attach(ended.mark, ended.anchor, std::move(ended.value));
  }

  void require_key(const YAML::Mark& mark) const {
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key)
      throw yaml_error("a key is not a name", file_, mark, "write `name: value`");
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, Json value) {
    require_key(mark);
    count(mark, 1);
    attach(mark, anchor, std::move(value));
  }

  void attach(const YAML::Mark& mark, YAML::anchor_t anchor, Json value) {
    if (anchor != 0) anchors_[anchor] = value;
    if (open_.empty()) {
      text_.root = std::move(value);
      return;
    }
    Open& outer = open_.back();
    if (outer.value.is_array()) {
      outer.value.push_back(std::move(value));
      return;
    }
    outer.has_key = false;
    if (outer.key == "<<" && value.is_object()) {
      outer.merged.push_back(std::move(value));
    } else if (outer.value.contains(outer.key)) {
      throw yaml_error("the key '" + outer.key + "' is there twice", file_, mark,
                       "keep one of them");
    } else {
      outer.value.add(outer.key, std::move(value));
    }
  }

  static constexpr const char* kNameless = "[]";

  std::string file_;
  YamlText text_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Json> anchors_;
  std::size_t num_values_ = 0;
  bool is_empty_ = true;
};

}  // namespace

YamlText parse_yaml(const std::string& text, const std::string& file) {
  YamlBuilder builder(file);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    throw yaml_error("not YAML: " + error.msg, file, error.mark, "mend the file");
  }
  return builder.take();
}

}  // namespace sluice::detail
