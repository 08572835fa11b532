// Translates the configuration of another trainer into sluice's.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/import/other_trainers.h"
#include "config/peer_keys.h"
#include "config/run_config.h"
#include "config/value.h"

namespace sluice::detail {

// The translation in progress. The conversions of peer_keys() get it together with the value of
// their key.
class ConfigImport {
 public:
  // The folder from which relative paths of the result start. "": the working folder.
  ConfigImport(const Json& settings, const Trainer& trainer, std::map<std::string, int> lines,
               std::filesystem::path folder);

  const Trainer& trainer() const { return *trainer_; }
  const std::string& name() const { return name_; }  // of the key being translated

  // Value of another key of the file, nested names with dots, or its default. Null if it is not
  // set.
  const Json& source(const std::string& name) const;
  std::string text_of(const std::string& name) const;  // "" if it is not text
  bool is_on(const std::string& name) const;           // see is_true()

  static bool has_key(const std::string& key);
  static bool takes_text(const std::string& key);  // any text or the key's own words

  // Sets a key of sluice from the key being translated. A value that the key does not allow is left
  // out instead. Returns whether the key is set.
  bool set(const std::string& key, const Json& value);
  // Sets a key that follows from others or from what the trainer does by itself. `from` says so.
  void set_own(const std::string& key, const Json& value, const std::string& from);
  const Json* value_of(const std::string& key) const;  // nullptr if it is not set
  void unset(const std::string& key, const std::string& reason);

  // Records why the key being translated, or a part of it such as "[0].split", has no effect.
  void leave_out(const std::string& reason, const std::string& part = {});
  void leave_out();  // for the reason in the row of peer_keys()
  // Records that the key being translated is off and therefore has no effect.
  void skip();
  // Records that the conversion of another key reads the key being translated.
  void read_along();
  // Adds a command that the user must run before the training.
  void prepare(const std::string& command);
  // `path` is relative to the working folder, the result to the folder of the configuration.
  std::string relocated(const std::string& path) const;

  // Translates all keys.
  void run();

  std::string toml(const std::string& file) const;
  std::vector<std::string> notes() const;

 private:
  struct Entry {
    Json value;
    std::string text;     // the value in TOML
    std::string from;     // for the comment
    bool is_own = false;  // not from the file
  };
  struct Left {
    std::string name, value, reason;
    int line = 0;
  };

  void translate(const std::string& name, const Json& value);
  bool translate_one(const std::string& name, const Json& value);
  const PeerKey* row_of(const std::string& name) const;
  std::string left_text(const Left& left) const;

  const Json& settings_;
  const Trainer* trainer_;
  std::map<std::string, int> lines_;
  std::filesystem::path folder_;
  std::map<std::string, Json> defaults_;
  std::map<std::string, Entry> entries_;
  std::vector<Left> left_;
  std::vector<std::string> skipped_, read_, commands_;
  RunConfig scratch_;
  std::string name_;  // of the key being translated
  const PeerKey* row_ = nullptr;
  Json value_;
  std::string own_;  // where the value comes from, if not from the file
};

// True, a number except 0, or text except "false", "no", "none" and "off".
bool is_true(const Json& value);

}  // namespace sluice::detail

namespace sluice {

struct ImportedConfig {
  std::string toml;
  std::vector<std::string> notes;  // what was left out and why, and what to run first
};

// Reads `file`, the configuration of the trainer `from` ("": decided by the keys). Paths in the
// result are relative to the folder of `out` ("": the working folder). Throws Error(kUsage) for a
// file that is unreadable or trains what sluice cannot train, such as preferences.
ImportedConfig import_config(const std::string& file, const std::string& from,
                             const std::string& out);

}  // namespace sluice
