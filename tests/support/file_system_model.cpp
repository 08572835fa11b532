#include "support/file_system_model.h"

#include <fcntl.h>

#include <algorithm>
#include <stdexcept>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

namespace sluice::test {
namespace {

std::string applied(std::string text, long offset, const std::string& bytes) {
  const auto at = static_cast<std::size_t>(offset);
  if (text.size() < at + bytes.size()) text.resize(at + bytes.size(), '\0');
  text.replace(at, bytes.size(), bytes);
  return text;
}

}  // namespace

bool FileSystemModel::Change::touches(Id folder) const {
  return std::any_of(slots.begin(), slots.end(),
                     [folder](const Slot& slot) { return slot.folder == folder; });
}

std::shared_ptr<const std::string> Contents::one(std::string content) {
  if (const auto found = known_.find(content); found != known_.end()) return found->second;
  auto made = std::make_shared<const std::string>(std::move(content));
  known_.emplace(*made, made);
  return made;
}

FileSystemModel::FileSystemModel(const Tree& durable, std::shared_ptr<Contents> contents)
    : shared_(std::move(contents)) {
  make(Node::Kind::kFolder);  // kRoot
  for (const auto& [path, node] : durable) {
    const auto [folder, name] = slot_of(path);
    names_[folder][name] = make(node.kind, node.content ? *node.content : "");
  }
  durable_names_ = names_;
}

FileSystemModel::Id FileSystemModel::make(Node::Kind kind, const std::string& synced) {
  things_[++last_id_] = {kind, synced, {}};
  if (kind == Node::Kind::kFolder) names_[last_id_] = durable_names_[last_id_] = {};
  return last_id_;
}

FileSystemModel::Id FileSystemModel::find_in(const std::map<Id, Names>& names,
                                             const std::string& path) {
  Id id = kRoot;
  if (path == ".") return id;
  for (std::size_t at = 0; id != 0 && at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const auto folder = names.find(id);
    if (folder == names.end()) return 0;
    const auto entry = folder->second.find(path.substr(at, slash - at));
    id = entry == folder->second.end() ? 0 : entry->second;
    at = slash + 1;
  }
  return id;
}

std::pair<FileSystemModel::Id, std::string> FileSystemModel::slot_of(
    const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  const Id folder = slash == std::string::npos ? kRoot : find(path.substr(0, slash));
  if (path.starts_with('/') || path.empty() || path == "." || !names_.contains(folder))
    throw std::runtime_error("'" + path + "' has no folder in the log");
  return {folder, slash == std::string::npos ? path : path.substr(slash + 1)};
}

bool FileSystemModel::is_durable(const std::string& path) const {
  return find_in(durable_names_, path) != 0;
}

FileSystemModel::Id FileSystemModel::described(const FileCall& call) const {
  const auto found = descriptors_.find(call.descriptor);
  if (found == descriptors_.end())
    throw std::runtime_error("no open() in the log for: " + call.text());
  return found->second;
}

void FileSystemModel::change(const FileCall& call, std::vector<Change::Slot> slots) {
  for (const Change::Slot& slot : slots) {
    if (slot.id == 0) {
      names_[slot.folder].erase(slot.name);
    } else {
      names_[slot.folder][slot.name] = slot.id;
    }
  }
  changes_.push_back({std::move(slots), call.text()});
}

// All changes of one name are in one folder, so their order is kept.
void FileSystemModel::sync_changes(const std::function<bool(const Change&)>& chosen) {
  std::vector<Change> left;
  for (Change& change : changes_) {
    if (!chosen(change)) {
      left.push_back(std::move(change));
      continue;
    }
    for (const Change::Slot& slot : change.slots) {
      if (slot.id == 0) {
        durable_names_[slot.folder].erase(slot.name);
      } else {
        durable_names_[slot.folder][slot.name] = slot.id;
      }
    }
  }
  changes_ = std::move(left);
}

void FileSystemModel::sync(Id id) {
  Thing& thing = things_.at(id);
  thing.synced = *content(id, Bytes::kAll);
  thing.writes.clear();
  std::erase_if(contents_, [id](const auto& of) { return of.first.first == id; });
  if (thing.kind == Node::Kind::kFolder)
    sync_changes([id](const Change& change) { return change.touches(id); });
}

void FileSystemModel::open(const FileCall& call) {
  Id id = find(call.path);
  if (id == 0) {
    if (!(call.flags & O_CREAT))
      throw std::runtime_error("opened, but not in the log: " + call.text());
    const auto [folder, name] = slot_of(call.path);
    id = make(Node::Kind::kFile);
    change(call, {{folder, name, id}});
  } else if (call.flags & O_TRUNC) {
    things_.at(id).writes.push_back({0, {}, true});
    std::erase_if(contents_, [id](const auto& of) { return of.first.first == id; });
  }
  descriptors_[static_cast<int>(call.result)] = id;
}

void FileSystemModel::rename(const FileCall& call) {
  const auto [from_folder, from_name] = slot_of(call.path);
  const auto [to_folder, to_name] = slot_of(call.other);
  const Id moved = find(call.path);
  if (moved == 0) throw std::runtime_error("renamed, but not in the log: " + call.text());
  const bool exchanges = call.flags & RENAME_EXCHANGE;
  change(call,
         {{from_folder, from_name, exchanges ? find(call.other) : 0}, {to_folder, to_name, moved}});
}

void FileSystemModel::play(const FileCall& call) {
  if (call.name == "close") {
    descriptors_.erase(call.descriptor);
  } else if (call.result < 0 || call.name == "read") {
    return;
  } else if (call.name == "open") {
    open(call);
  } else if (call.name == "write" || call.name == "ftruncate") {
    const Id id = described(call);
    things_.at(id).writes.push_back({call.offset, call.bytes, call.name == "ftruncate"});
    std::erase_if(contents_, [id](const auto& of) { return of.first.first == id; });
  } else if (call.name == "fsync" || call.name == "fdatasync") {
    sync(described(call));
  } else if (call.name == "syncfs") {
    for (auto& [id, thing] : things_) sync(id);
  } else if (call.name == "rename") {
    rename(call);
  } else {
    const auto [folder, name] = slot_of(call.name == "link" ? call.other : call.path);
    const bool needs = call.name == "unlink" || call.name == "rmdir" || call.name == "link";
    if (needs && find(call.path) == 0)
      throw std::runtime_error("not in the log before: " + call.text());
    if (call.name == "mkdir") {
      change(call, {{folder, name, make(Node::Kind::kFolder)}});
    } else if (call.name == "unlink" || call.name == "rmdir") {
      change(call, {{folder, name, 0}});
    } else if (call.name == "link") {
      change(call, {{folder, name, find(call.path)}});
    } else if (call.name == "symlink") {
      change(call, {{folder, name, make(Node::Kind::kLink, call.other)}});
    } else {
      throw std::runtime_error("unknown call: " + call.text());
    }
  }
}

std::shared_ptr<const std::string> FileSystemModel::content(Id id, Bytes kept) const {
  std::shared_ptr<const std::string>& made = contents_[{id, kept}];
  if (made) return made;
  const Thing& thing = things_.at(id);
  std::string text = thing.synced;
  const std::size_t num_writes =
      kept == Bytes::kNone ? 0
                           : (kept == Bytes::kHalf ? thing.writes.size() / 2 : thing.writes.size());
  for (std::size_t i = 0; i < num_writes; ++i) {
    const Write& write = thing.writes[i];
    if (write.truncates) {
      text.resize(static_cast<std::size_t>(write.offset), '\0');
    } else {
      text = applied(std::move(text), write.offset,
                     kept == Bytes::kZeros ? std::string(write.bytes.size(), '\0') : write.bytes);
    }
  }
  // The next write, of which only part reached the disk.
  if (kept == Bytes::kHalf && num_writes < thing.writes.size()) {
    const Write& write = thing.writes[num_writes];
    text = applied(std::move(text), write.offset, write.bytes.substr(0, write.bytes.size() / 2));
  }
  return made = shared_->one(std::move(text));
}

Tree FileSystemModel::tree(
    const std::map<Id, Names>& names,
    const std::function<std::shared_ptr<const std::string>(Id)>& content_of) const {
  Tree tree;
  const std::function<void(Id, const std::string&)> add = [&](Id folder, const std::string& path) {
    for (const auto& [name, id] : names.at(folder)) {
      const Node::Kind kind = things_.at(id).kind;
      const bool is_folder = kind == Node::Kind::kFolder;
      tree[path + name] = {kind, is_folder ? nullptr : content_of(id)};
      if (is_folder) add(id, path + name + "/");
    }
  };
  add(kRoot, "");
  return tree;
}

Tree FileSystemModel::now() const {
  return tree(names_, [this](Id id) { return content(id, Bytes::kAll); });
}

Tree FileSystemModel::durable() const {
  return tree(durable_names_, [this](Id id) { return content(id, Bytes::kNone); });
}

std::map<FileSystemModel::Id, FileSystemModel::Names> FileSystemModel::names_with(
    const std::vector<bool>& kept) const {
  std::map<Id, Names> names = durable_names_;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (!kept[i]) continue;
    for (const Change::Slot& slot : changes_[i].slots) {
      if (slot.id == 0) {
        names[slot.folder].erase(slot.name);
      } else {
        names[slot.folder][slot.name] = slot.id;
      }
    }
  }
  return names;
}

void FileSystemModel::for_each_power_loss(std::mt19937_64& random, int num_random,
                                          const Visit& visit) const {
  constexpr Bytes kFates[] = {Bytes::kNone, Bytes::kHalf, Bytes::kZeros, Bytes::kAll};
  constexpr const char* kFateTexts[] = {"no bytes", "half of the bytes", "zeros for bytes",
                                        "all bytes"};
  const std::size_t count = changes_.size();
  const bool has_bytes = std::any_of(things_.begin(), things_.end(),
                                     [](const auto& of) { return !of.second.writes.empty(); });
  const auto visit_with = [&](const std::vector<bool>& kept, const std::string& text,
                              std::initializer_list<int> fates) {
    const std::map<Id, Names> names = names_with(kept);
    for (const int fate : fates) {
      const Tree state = tree(names, [&](Id id) { return content(id, kFates[fate]); });
      visit(state, text + ", " + kFateTexts[fate] + " of what is not synced");
      if (!has_bytes) return;
    }
  };
  visit_with(std::vector<bool>(count, false), "no name", {0, 1, 2, 3});
  visit_with(std::vector<bool>(count, true), "every name", {0, 1, 2, 3});
  std::vector<bool> kept(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    kept[i] = true;
    visit_with(kept, "names until '" + changes_[i].text + "'", {0, 3});
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (const bool alone : {true, false}) {
      kept.assign(count, !alone);
      kept[i] = alone;
      visit_with(kept, (alone ? "only '" : "all but '") + changes_[i].text + "'", {0, 3});
    }
  }
  for (int i = 0; i < num_random && count + has_bytes > 1; ++i) {
    std::string text = "drawn, without";
    for (std::size_t change = 0; change < count; ++change) {
      kept[change] = random() % 2 == 0;
      if (!kept[change]) text += " '" + changes_[change].text + "'";
    }
    std::map<Id, Bytes> fates;
    for (const auto& [id, thing] : things_) fates[id] = kFates[random() % 4];
    const Tree state = tree(names_with(kept), [&](Id id) { return content(id, fates.at(id)); });
    visit(state, text);
  }
}

std::string FileSystemModel::path_in(const std::map<Id, Names>& names, Id wanted) {
  std::string found;
  const std::function<void(Id, const std::string&)> search = [&](Id folder,
                                                                 const std::string& path) {
    for (const auto& [name, id] : names.at(folder)) {
      if (id == wanted) found = path + name;
      if (found.empty() && names.contains(id)) search(id, path + name + "/");
    }
  };
  search(kRoot, "");
  return found;
}

std::string FileSystemModel::durable_path(const std::string& path) const {
  const Id id = find(path);
  return id == 0 ? "" : path_in(durable_names_, id);
}

std::string FileSystemModel::not_synced(const std::string& path, const std::string& without) const {
  const Id top = find(path);
  if (top == 0) return "'" + path + "' is not there";
  if (!things_.at(top).writes.empty()) return "the bytes of '" + path + "'";
  if (!names_.contains(top)) return {};
  for (const Change& change : changes_) {
    for (const Change::Slot& slot : change.slots) {
      if (slot.folder == top && slot.name != without)
        return "'" + change.text + "' in '" + path + "'";
    }
  }
  for (const auto& [name, id] : names_.at(top)) {
    if (name == without) continue;
    if (std::string found = not_synced(path + "/" + name); !found.empty()) return found;
  }
  return {};
}

std::string FileSystemModel::name_not_synced(const std::string& path) const {
  const auto [folder, name] = slot_of(path);
  for (const Change& change : changes_) {
    for (const Change::Slot& slot : change.slots) {
      if (slot.folder == folder && slot.name == name) return "'" + change.text + "'";
    }
  }
  return {};
}

}  // namespace sluice::test
