// A folder in memory that plays recorded calls, and knows what a power loss may leave of it.
//
// Theory: a file system promises to keep what was written to a file once fsync() of the file has
// returned, and a name once fsync() of its folder has. Of everything else a power loss keeps any
// part: of the changes of names any subset (each by itself at once; those of one name in order), of
// the bytes written to a file nothing, a prefix, or the length with zeros. This is the model of
// Pillai et al., "All File Systems Are Not Created Equal" (ALICE, OSDI 2014); real file systems
// keep more, each another part.
//
// Owns: names, contents, what of both is durable. Does not own: which states are right
// (save_order.h).
// Invariants: 1. played whole, a complete log gives the folder that its program left.
// Thread-safety: one object belongs to one thread.
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

// Each content once, so that equal ones are compared by their address.
class Contents {
 public:
  std::shared_ptr<const std::string> one(std::string content);

 private:
  std::unordered_map<std::string_view, std::shared_ptr<const std::string>> known_;
};

class FileSystemModel {
 public:
  // `durable`: what is there before the first call. contents: shared by models whose states are
  // compared with each other.
  explicit FileSystemModel(const Tree& durable,
                           std::shared_ptr<Contents> contents = std::make_shared<Contents>());

  // Throws std::runtime_error for a call that cannot have had its result here: calls before it are
  // missing.
  void play(const FileCall& call);

  // The tree that is left where the process is killed now.
  Tree now() const;
  // The tree that is left at least, where the power fails now.
  Tree durable() const;

  // Calls visit(state, how it came about) for states that a power loss may leave now: none and all
  // of what is not synced, the prefixes of its order, all but one, one alone, and `num_random`
  // drawn ones, each with several fates of the bytes that are not synced.
  using Visit = std::function<void(const Tree& state, const std::string& loss)>;
  void for_each_power_loss(std::mt19937_64& random, int num_random, const Visit& visit) const;

  // The first thing below `path` (and of the folder itself) that is not durable, "" for none. Not
  // looked at: `without`, a name directly in it.
  std::string not_synced(const std::string& path, const std::string& without = {}) const;
  // "" when the power may fail without changing what `path` names.
  std::string name_not_synced(const std::string& path) const;
  // The place in durable() of the file or folder that is now at `path`; "" where it is not there.
  std::string durable_path(const std::string& path) const;
  // True if durable() has `path`.
  bool is_durable(const std::string& path) const;

 private:
  using Id = long;  // of a file or folder, whatever its names; 0 for none
  using Names = std::map<std::string, Id>;
  struct Change {  // all of it or nothing
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
    long offset;  // where a truncation cuts
    std::string bytes;
    bool truncates = false;
  };
  struct Thing {
    Node::Kind kind = Node::Kind::kFile;
    std::string synced;
    std::vector<Write> writes;  // since then
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
  std::vector<Change> changes_;  // that are not durable, in order
  std::map<int, Id> descriptors_;
  std::shared_ptr<Contents> shared_;
  mutable std::map<std::pair<Id, Bytes>, std::shared_ptr<const std::string>> contents_;
};

}  // namespace sluice::test
