// Publishes a directory as a whole, or not at all.
//
// kRename writes a temporary directory, with the marker as last file. It then flushes files,
// folders, the rename and the parent folder, in this order.
// kMarker is for file systems without atomic renames. Files have their final names from the start.
// Once all are flushed, writing the marker commits them. It never replaces a committed directory,
// because the old and the new one could not both be whole.
//
// Killed processes leave .NAME.tmp-* (being written or removed), .NAME.old-* (moved aside), or, in
// marker mode, a file .sluice-incomplete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/options.h"

namespace sluice::io {

struct DirectoryKind {
  const char* marker;  // file that is written last
  // whether a file may be removed
  bool (*is_ours)(std::string_view file);
  // whether the marker is valid
  bool (*is_committed)(const std::string& path);
};

class PublishedDirectory {
 public:
  // First removes or restores directories of killed processes. Throws Error(kCheckpoint).
  PublishedDirectory(std::string path, Commit commit, DirectoryKind kind);
  // Removes the directory unless it is published.
  ~PublishedDirectory();
  PublishedDirectory(const PublishedDirectory&) = delete;
  PublishedDirectory& operator=(const PublishedDirectory&) = delete;

  // Write and flush files here before publish(), at most one folder deep.
  const std::string& working() const { return working_; }
  const std::string& path() const { return path_; }
  // Writes the marker and commits. Removes an older directory, but keeps one with foreign files as
  // NAME.kept-*.
  void publish(const std::string& marker_text);

 private:
  void begin_rename();
  void begin_marker();
  int exchange() const;
  void move_aside(const std::string& aside);
  std::string take_name();
  void give_name_back(const std::string& older);

  std::string path_, folder_, working_;
  Commit commit_;
  DirectoryKind kind_;
  int lock_ = -1;  // prevents removal by other processes
  bool published_ = false;
};

// Restores directories that were moved aside, unless their successors exist.
void restore_moved_steps(const std::string& folder);
// Like restore_moved_steps(), but also removes uncommitted directories.
void clean_steps(const std::string& folder, const DirectoryKind& kind);

// Returns the newly created folders, parents first. Throws Error(kCheckpoint).
std::vector<std::string> make_folders(const std::string& path);

// Creates the folder unless another rank has created it. Throws Error(kCheckpoint).
void ensure_folder(const std::string& path);

// Whether a save in marker mode has not finished.
bool is_unfinished(const std::string& path);
// Renames the directory to NAME.kept-*. Throws Error(kCheckpoint).
void rename_to_kept(const std::string& path);

// Checks files up to one folder deep.
bool holds_only(const std::string& path, bool (*is_ours)(std::string_view file));

// Removes the directory. It never looks committed while files are missing. Throws
// Error(kCheckpoint).
void remove_published(const std::string& path, Commit commit, const DirectoryKind& kind);

}  // namespace sluice::io
