// Plays recorded file calls on a folder in memory and computes what a power loss may leave of it.
//
// A file system guarantees to keep a file's bytes once fsync() of the file has returned, and a name
// once fsync() of its folder has. A power loss may keep any part of the rest. It keeps any subset
// of the name changes; each change is atomic, and changes of one name stay in order. Of the bytes
// written to a file it keeps none, a prefix, or the full length filled with zeros. This is the
// model of Pillai et al., "All File Systems Are Not Created Equal" (ALICE, OSDI 2014). Real file
// systems keep more.
//
// Playing a complete log gives the folder that its program left. save_order.h decides which states
// are correct.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "support/file_calls.h"

namespace sluice::test {

// Stores each content once, so that equal contents have equal addresses.
class Contents {
 public:
  std::shared_ptr<const std::string> one(std::string content);

 private:
  std::unordered_map<std::string_view, std::shared_ptr<const std::string>> known_;
};

class FileSystemModel {
 public:
  // `durable` is the tree before the first call. Models whose states are compared share `contents`.
  explicit FileSystemModel(const Tree& durable,
                           std::shared_ptr<Contents> contents = std::make_shared<Contents>());

  // Throws std::runtime_error if the call cannot have had its logged result, because earlier calls
  // are missing.
  void play(const FileCall& call);

  // What remains if the process is killed now.
  Tree now() const;
  // The least that remains after a power loss now.
  Tree durable() const;

  // Calls visit(state, description) for states that a power loss may leave now. It visits unsynced
  // changes in these sets: none, all, each prefix, all but one, only one, and `num_random` random
  // subsets. Each set is combined with several outcomes for the unsynced bytes.
  using Visit = std::function<void(const Tree& state, const std::string& loss)>;
  void for_each_power_loss(std::mt19937_64& random, int num_random, const Visit& visit) const;

  // The first thing below `path`, or the folder itself, that is not durable. "" if all is durable.
  // Ignores `without`, a name directly in the folder.
  std::string not_synced(const std::string& path, const std::string& without = {}) const;
  // "" if a power loss now cannot change what `path` names.
  std::string name_not_synced(const std::string& path) const;
  // The path in durable() of the file or folder that is now at `path`. "" if it has none.
  std::string durable_path(const std::string& path) const;
  bool is_durable(const std::string& path) const;

 private:
  using Id = long;  // identifies a file or folder independently of its names; 0 for none
  using Names = std::map<std::string, Id>;
  struct Change {  // atomic
    struct Slot {
      Id folder;
      std::string name;
      Id id;
    };
    std::vector<Slot> slots;
    std::string text;
    bool touches(Id folder) const;
  };
  struct Write {
    long offset;  // for a truncation, the new length
    std::string bytes;
    bool truncates = false;
  };
  struct Thing {
    Node::Kind kind = Node::Kind::kFile;
    std::string synced;
    std::vector<Write> writes;  // since the last sync
  };
  enum class Bytes { kNone, kHalf, kZeros, kAll };

  Id make(Node::Kind kind, const std::string& synced = {});
  Id find(const std::string& path) const { return find_in(names_, path); }
  std::pair<Id, std::string> slot_of(const std::string& path) const;
  Id described(const FileCall& call) const;
  void change(const FileCall& call, std::vector<Change::Slot> slots);
  void sync(Id id);
  void sync_changes(const std::function<bool(const Change&)>& chosen);
  void open(const FileCall& call);
  void rename(const FileCall& call);
  Tree tree(const std::map<Id, Names>& names,
            const std::function<std::shared_ptr<const std::string>(Id)>& content) const;
  std::shared_ptr<const std::string> content(Id id, Bytes kept) const;
  std::map<Id, Names> names_with(const std::vector<bool>& kept) const;
  static Id find_in(const std::map<Id, Names>& names, const std::string& path);
  static std::string path_in(const std::map<Id, Names>& names, Id wanted);

  static constexpr Id kRoot = 1;
  Id last_id_ = 0;
  std::map<Id, Thing> things_;
  std::map<Id, Names> names_, durable_names_;
  std::vector<Change> changes_;  // not yet durable, in order
  std::map<int, Id> descriptors_;
  std::shared_ptr<Contents> shared_;
  mutable std::map<std::pair<Id, Bytes>, std::shared_ptr<const std::string>> contents_;
};

}  // namespace sluice::test
