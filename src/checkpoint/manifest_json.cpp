// A value is identified by its depth, because the JSON has a fixed structure:
//
//   { "step": 12,                                            depth 1
//     "settings": {"optimizer.lr": "0.001"},                 depth 2 of a map
//     "fingerprints": {"model": {"bytes": 1, ...}},          depth 3 of a map
//     "weights": [ {"name": "w", "shape": [2, 3], ...} ] }   depth 3 of a list, 4 in the shape
#include "checkpoint/manifest_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/format.h"
#include "base/json_events.h"
#include "base/strict_json.h"
#include "checkpoint/manifest.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr const char* kManifestRemedy =
    "it is damaged or was edited: resume from another checkpoint";

enum class Form { kText, kNumber, kTextMap, kNumberMap, kRecordMap, kRecordList };
struct Section {
  std::string_view key;
  Form form;
};
constexpr std::array<Section, 17> kSections = {{{"format", Form::kText},
                                                {"version", Form::kNumber},
                                                {"sluice", Form::kText},
                                                {"run", Form::kText},
                                                {"generation", Form::kNumber},
                                                {"step", Form::kNumber},
                                                {"data", Form::kNumberMap},
                                                {"seed", Form::kNumber},
                                                {"fingerprints", Form::kRecordMap},
                                                {"settings", Form::kTextMap},
                                                {"ties", Form::kTextMap},
                                                {"extra", Form::kTextMap},
                                                {"weights", Form::kRecordList},
                                                {"optimizer", Form::kRecordList},
                                                {"extra_tensors", Form::kRecordList},
                                                {"files", Form::kRecordList},
                                                {"hash", Form::kText}}};

enum Field : unsigned {
  kName = 1,
  kDtype = 2,
  kShape = 4,
  kFile = 8,
  kOffset = 16,
  kBytes = 32,
  kHash = 64,
  kOfTensor = 127,
  kOfFile = kFile | kBytes | kHash,
  kOfFingerprint = kBytes | kHash
};
constexpr std::array<std::pair<std::string_view, Field>, 7> kFields = {{{"name", kName},
                                                                        {"dtype", kDtype},
                                                                        {"shape", kShape},
                                                                        {"file", kFile},
                                                                        {"offset", kOffset},
                                                                        {"bytes", kBytes},
                                                                        {"hash", kHash}}};

class ManifestHandler final : public JsonEvents {
 public:
  explicit ManifestHandler(const std::string& file) : file_(file) {}

  Manifest take() {
    for (std::size_t i = 0; i < kSections.size(); ++i) {
      if (!seen_[i])
        refuse_manifest(file_, "key '" + std::string(kSections[i].key) + "' is missing");
    }
    return std::move(manifest_);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(std::int64_t) override { return unexpected("a negative number"); }
  bool number_float(double) override { return unexpected("a number that is not a 64-bit integer"); }

  bool number_unsigned(std::uint64_t value) override {
    if (depth_ == 1 && form() == Form::kNumber) {
      if (is("version")) require_version(value);
      if (is("generation")) manifest_.generation = int64(value);
      if (is("step")) manifest_.step = int64(value);
      if (is("seed")) manifest_.seed = value;
    } else if (depth_ == 2 && form() == Form::kNumberMap) {
      manifest_.sequence = int64(value);
      has_sequence_ = true;
    } else if (depth_ == 3 && field_ == kOffset) {
      tensor_.offset = value;
    } else if (depth_ == 3 && field_ == kBytes) {
      tensor_.bytes = value;
    } else if (depth_ == 4) {
      tensor_.shape.push_back(int64(value));
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ == 1 && form() == Form::kText) {
      if (is("format") && value != kManifestFormat) {
        refuse_manifest(file_, formatted("its format is '{}', not '{}'", value, kManifestFormat));
      }
      if (is("sluice") || is("run")) (is("run") ? manifest_.run : manifest_.version) = value;
    } else if (depth_ == 2 && form() == Form::kTextMap) {
      text_map()[key_] = std::move(value);
    } else if (depth_ == 3 && field_ == kName) {
      tensor_.name = std::move(value);
    } else if (depth_ == 3 && field_ == kDtype) {
      tensor_.dtype = std::move(value);
    } else if (depth_ == 3 && field_ == kFile) {
      tensor_.file = std::move(value);
    } else if (depth_ == 3 && field_ == kHash) {
      tensor_.hash = std::move(value);
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool start_object() override {
    const bool map = depth_ == 1 && (form() == Form::kTextMap || form() == Form::kNumberMap ||
                                     form() == Form::kRecordMap);
    const bool record = depth_ == 2 && (form() == Form::kRecordMap || form() == Form::kRecordList);
    if (depth_ != 0 && !map && !record) return unexpected("an object");
    if (record) {
      tensor_ = SavedTensor();
      has_field_ = 0;
    }
    ++depth_;
    return true;
  }

  bool end_object() override {
    if (depth_ == 3) finish_record();
    if (depth_ == 2 && form() == Form::kNumberMap && !has_sequence_)
      refuse_manifest(file_, "key 'sequence' is missing", "data");
    --depth_;
    return true;
  }

  bool start_array() override {
    const bool list = depth_ == 1 && form() == Form::kRecordList;
    const bool shape = depth_ == 3 && field_ == kShape;
    if (!list && !shape) return unexpected("a list");
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(std::string& key) override {
    if (depth_ == 1) return top_key(key);
    if (depth_ == 3) return field_key(key);
    key_ = std::move(key);
    const bool twice = (form() == Form::kTextMap && text_map().contains(key_)) ||
                       (form() == Form::kRecordMap && manifest_.fingerprints.contains(key_)) ||
                       (form() == Form::kNumberMap && has_sequence_);
    if (twice) refuse_manifest(file_, "key '" + key_ + "' appears twice", section());
    if (form() == Form::kNumberMap && key_ != "sequence")
      refuse_manifest(file_, "unknown key '" + key_ + "'", section());
    return true;
  }

  void malformed(const JsonFault& fault) override {
    refuse_manifest(file_, "not valid JSON at its byte " + std::to_string(fault.byte));
  }

 private:
  std::string section() const { return std::string(kSections[section_].key); }
  bool is(std::string_view key) const { return kSections[section_].key == key; }
  Form form() const { return kSections[section_].form; }

  std::string place() const {
    if (depth_ < 2) return {};
    if (depth_ == 2) return form() == Form::kRecordList ? section() : section() + " '" + key_ + "'";
    const std::string& name = form() == Form::kRecordMap ? key_
                              : is("files")              ? tensor_.file
                                                         : tensor_.name;
    return formatted("{} '{}'", section(), name);
  }

  std::map<std::string, std::string>& text_map() {
    return is("settings") ? manifest_.settings : is("ties") ? manifest_.ties : manifest_.extra;
  }

  std::int64_t int64(std::uint64_t value) const {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      unexpected("a number above 2^63-1");
    return static_cast<std::int64_t>(value);
  }

  void require_version(std::uint64_t version) const {
    if (version == kManifestVersion) return;
    throw Error(ErrorKind::kCheckpoint, {.what = formatted("the manifest has version {}, not {}",
                                                           version, kManifestVersion),
                                         .where = file_,
                                         .remedy = "use the version of sluice that wrote it"});
  }

  bool top_key(const std::string& key) {
    const auto row = std::find_if(kSections.begin(), kSections.end(),
                                  [&](const Section& section) { return section.key == key; });
    if (row == kSections.end()) refuse_manifest(file_, "unknown key '" + key + "'");
    section_ = static_cast<std::size_t>(row - kSections.begin());
    if (std::exchange(seen_[section_], true))
      refuse_manifest(file_, "key '" + key + "' appears twice");
    return true;
  }

  unsigned fields_of_record() const {
    return form() == Form::kRecordMap ? kOfFingerprint : is("files") ? kOfFile : kOfTensor;
  }

  bool field_key(const std::string& key) {
    const auto row = std::find_if(kFields.begin(), kFields.end(),
                                  [&](const auto& field) { return field.first == key; });
    if (row == kFields.end() || (row->second & fields_of_record()) == 0)
      refuse_manifest(file_, "unknown key '" + key + "'", place());
    field_ = row->second;
    if ((has_field_ & field_) != 0)
      refuse_manifest(file_, "key '" + key + "' appears twice", place());
    has_field_ |= field_;
    return true;
  }

  void finish_record() {
    for (const auto& [name, field] : kFields) {
      if ((fields_of_record() & ~has_field_ & field) != 0)
        refuse_manifest(file_, "key '" + std::string(name) + "' is missing", place());
    }
    if (form() == Form::kRecordMap) {
      manifest_.fingerprints[key_] = {tensor_.bytes, std::move(tensor_.hash)};
    } else if (is("files")) {
      manifest_.files.push_back({std::move(tensor_.file), tensor_.bytes, std::move(tensor_.hash)});
    } else {
      tensors().push_back(std::move(tensor_));
    }
  }

  std::vector<SavedTensor>& tensors() {
    return is("weights")     ? manifest_.weights
           : is("optimizer") ? manifest_.optimizer
                             : manifest_.extra_tensors;
  }

  bool unexpected(const std::string& found) const {
    std::string key = depth_ == 0 ? "" : section();
    for (const auto& [name, field] : kFields) {
      if (depth_ > 2 && field == field_) key = name;
    }
    refuse_manifest(file_, found + (key.empty() ? " in place of an object" : " in '" + key + "'"),
                    place());
  }

  const std::string& file_;
  Manifest manifest_;
  int depth_ = 0;
  std::size_t section_ = 0;
  std::array<bool, kSections.size()> seen_ = {};
  std::string key_;
  bool has_sequence_ = false;
  SavedTensor tensor_;
  unsigned has_field_ = 0;
  Field field_ = kName;
};

}  // namespace

void refuse_manifest(const std::string& file, const std::string& what, const std::string& place) {
  throw Error(ErrorKind::kCheckpoint, {.what = "not a manifest: " + what,
                                       .where = place.empty() ? file : file + ", " + place,
                                       .remedy = kManifestRemedy});
}

Manifest read_manifest_json(std::string_view text, const std::string& file) {
  // Check this, because the JSON library skips a byte order mark and stops at a NUL.
  if (text.substr(0, 1) != "{") refuse_manifest(file, "it does not start with '{'");
  if (find_nul(text) != std::string_view::npos) refuse_manifest(file, "a NUL character");
  ManifestHandler handler(file);
  read_json(text, handler);
  return handler.take();
}

}  // namespace sluice
