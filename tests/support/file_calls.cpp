#include "support/file_calls.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/temp_directory.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kFields = 12;

std::vector<std::string> split_by_tabs(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream rest(line);
  for (std::string field; std::getline(rest, field, '\t');) fields.push_back(field);
  return fields;
}

}  // namespace

std::string FileCall::text() const {
  std::string text = std::to_string(number) + " " + name + " " + path;
  if (!other.empty()) text += " -> " + other;
  if (result < 0) text += " (errno " + std::to_string(error) + ")";
  return text;
}

std::vector<FileCall> read_calls(const std::string& log) {
  const std::string data = read_file(log + ".data");
  std::istringstream lines(read_file(log));
  std::vector<FileCall> calls;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = split_by_tabs(line);
    if (fields.size() != kFields) throw std::runtime_error(log + ": not a call: " + line);
    FileCall call;
    call.number = std::stol(fields[0]);
    call.thread = std::stol(fields[1]);
    call.name = fields[2];
    call.descriptor = std::stoi(fields[3]);
    call.result = std::stol(fields[4]);
    call.error = std::stoi(fields[5]);
    call.flags = std::stol(fields[6]);
    call.offset = std::stol(fields[7]);
    if (const long at = std::stol(fields[9]); at >= 0) {
      call.bytes = data.substr(static_cast<std::size_t>(at), std::stoul(fields[8]));
    }
    call.path = fields[10] == "-" ? "" : fields[10];
    call.other = fields[11] == "-" ? "" : fields[11];
    calls.push_back(std::move(call));
  }
  return calls;
}

bool operator==(const Node& a, const Node& b) {
  if (a.kind != b.kind) return false;
  return a.content == b.content || (a.content && b.content && *a.content == *b.content);
}

Tree read_tree(const std::string& folder) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    Node& node = tree[entry.path().lexically_relative(folder)];
    if (entry.is_symlink()) {
      node.kind = Node::Kind::kLink;
      node.content = std::make_shared<const std::string>(fs::read_symlink(entry.path()));
    } else if (entry.is_directory()) {
      node.kind = Node::Kind::kFolder;
    } else {
      node.content = std::make_shared<const std::string>(read_file(entry.path()));
    }
  }
  return tree;
}

void write_tree(const Tree& tree, const std::string& folder) {
  fs::create_directories(folder);
  for (const auto& [path, node] : tree) {  // a folder sorts before its contents
    const fs::path to = fs::path(folder) / path;
    if (node.kind == Node::Kind::kFolder) {
      fs::create_directory(to);
    } else if (node.kind == Node::Kind::kLink) {
      fs::create_symlink(*node.content, to);
    } else {
      std::ofstream(to, std::ios::binary) << *node.content;
    }
  }
}

Tree below(const Tree& tree, const std::string& path) {
  Tree found;
  const std::string prefix = path + "/";
  for (auto it = tree.lower_bound(prefix); it != tree.end() && it->first.starts_with(prefix); ++it)
    found.emplace(it->first.substr(prefix.size()), it->second);
  return found;
}

std::string difference(const Tree& expected, const Tree& actual) {
  for (const auto& [path, node] : expected) {
    const auto found = actual.find(path);
    if (found == actual.end()) return path + " is missing";
    if (!(found->second == node)) {
      const auto size = [](const Node& of) { return of.content ? of.content->size() : 0; };
      return path + " has other content (" + std::to_string(size(found->second)) + " bytes, not " +
             std::to_string(size(node)) + ", or the same number)";
    }
  }
  for (const auto& [path, node] : actual) {
    if (!expected.contains(path)) return path + " should not be there";
  }
  return {};
}

}  // namespace sluice::test
