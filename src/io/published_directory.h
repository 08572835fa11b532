// A directory that appears as a whole, or not at all.
//
// kRename writes a temporary directory with the marker as its last file. It then flushes files,
// folders, the rename, and the parent folder, in this order.
// kMarker is for file systems without atomic renames. Files have their final names from the start,
// and the marker, written after everything is flushed, commits them. It never replaces a committed
// directory, because the old and the new one could not both be whole.
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
  const char* marker;  // written last
  // whether a file may be removed
  bool (*is_ours)(std::string_view file);
  // whether the marker is whole
  bool (*is_committed)(const std::string& path);
};

class PublishedDirectory {
 public:
  // Removes or restores what killed processes left. Throws Error(kCheckpoint).
  PublishedDirectory(std::string path, Commit commit, DirectoryKind kind);
  // Removes an unpublished directory.
  ~PublishedDirectory();
  PublishedDirectory(const PublishedDirectory&) = delete;
  PublishedDirectory& operator=(const PublishedDirectory&) = delete;

  // Write and flush files here before publish(), at most one folder deep.
  const std::string& working() const { return working_; }
  const std::string& path() const { return path_; }
  // Writes the marker and commits. An older directory is removed, or kept as NAME.kept-* if it has
  // foreign files.
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

// Restores directories that were moved aside, unless a successor exists.
void restore_moved_steps(const std::string& folder);
// Also removes uncommitted directories.
void clean_steps(const std::string& folder, const DirectoryKind& kind);

// Returns new folders, parents first. Throws Error(kCheckpoint).
std::vector<std::string> make_folders(const std::string& path);

// Another rank may have made it. Throws Error(kCheckpoint).
void ensure_folder(const std::string& path);

// True if a save in marker mode has not finished.
bool is_unfinished(const std::string& path);
// Renames to NAME.kept-*. Throws Error(kCheckpoint).
void rename_to_kept(const std::string& path);

// Looks into folders one level deep.
bool holds_only(const std::string& path, bool (*is_ours)(std::string_view file));

// Removes the directory without ever showing it as whole while files are missing. Throws
// Error(kCheckpoint).
void remove_published(const std::string& path, Commit commit, const DirectoryKind& kind);

}  // namespace sluice::io
