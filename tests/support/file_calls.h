// The calls of a program on the files of a folder, as fault_preload.cpp wrote them down; and
// folders as values.
//
// Owns: reading the log, reading and writing a tree of files. Does not own: what calls mean
// (file_system_model.h).
// Thread-safety: values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

struct FileCall {
  long number = 0, thread = 0;
  std::string name;  // "open", "write", "fsync", "rename", ...: one for all calls of a kind
  int descriptor = -1;
  long result = 0;
  int error = 0;
  long flags = 0, offset = -1;
  std::string bytes;        // that were written
  std::string path, other;  // below the folder; "." is the folder

  // "12 rename checkpoint/.step-1.tmp -> checkpoint/step-1"
  std::string text() const;
};

// Throws std::runtime_error for a file that is no such log.
std::vector<FileCall> read_calls(const std::string& log);

struct Node {
  enum class Kind { kFile, kFolder, kLink };
  Kind kind = Kind::kFile;
  std::shared_ptr<const std::string> content;  // of a file; where a link leads; null for a folder

  friend bool operator==(const Node& a, const Node& b);
};

// By path below the folder, which itself is not in it.
using Tree = std::map<std::string, Node>;

Tree read_tree(const std::string& folder);
void write_tree(const Tree& tree, const std::string& folder);
// The part of a tree below `path`, with names that start there.
Tree below(const Tree& tree, const std::string& path);
// The first path at which they differ and how, "" for none.
std::string difference(const Tree& expected, const Tree& actual);

}  // namespace sluice::test
