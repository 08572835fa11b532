// The calls that fault_preload.cpp logged, and folder trees as values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

struct FileCall {
  long number = 0, thread = 0;
  std::string name;  // "open", "write", "fsync", "rename", ...; variants of a call share a name
  int descriptor = -1;
  long result = 0;
  int error = 0;
  long flags = 0, offset = -1;
  std::string bytes;
  std::string path, other;  // relative to the folder; "." is the folder itself

  // Such as "12 rename checkpoint/.step-1.tmp -> checkpoint/step-1".
  std::string text() const;
};

// Throws std::runtime_error if the file is not such a log.
std::vector<FileCall> read_calls(const std::string& log);

struct Node {
  enum class Kind { kFile, kFolder, kLink };
  Kind kind = Kind::kFile;
  // of a file, or the target of a link; null for a folder
  std::shared_ptr<const std::string> content;

  friend bool operator==(const Node& a, const Node& b);
};

// Keyed by the path relative to the folder, which is not included itself.
using Tree = std::map<std::string, Node>;

Tree read_tree(const std::string& folder);
void write_tree(const Tree& tree, const std::string& folder);
// The subtree of `path`, with names relative to it.
Tree below(const Tree& tree, const std::string& path);
// Describes the first path at which the trees differ. "" if they are equal.
std::string difference(const Tree& expected, const Tree& actual);

}  // namespace sluice::test
