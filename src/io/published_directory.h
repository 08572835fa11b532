// A directory that appears as a whole, or not at all.
//
// Owns: temporary names, the commit, the exchange with an older directory of the same name, what
//   killed processes leave behind: .NAME.tmp-* (being written, or on its way out) and .NAME.old-*
//   (moved aside where the file system cannot exchange two names); in marker mode a file
//   .sluice-incomplete in what is not committed yet.
// Does not own: the files in the directory.
//
// The commit, by kRename: the last file, the marker, is written into the temporary directory like
// any other; files, folders, then the rename, then the folder above are flushed in this order. By
// kMarker, for file systems whose renames are not atomic: files are written under their final name,
// and the marker, after everything else is flushed, decides. Nothing that is committed is replaced
// then, since there is no moment at which both are whole.
// No torch. Thread-safety: one object belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/options.h"

namespace sluice::io {

// The marks that tell such directories from others.
struct DirectoryKind {
  const char* marker;  // the file that is written last
  // By its path inside the directory: a file that may be removed.
  bool (*is_ours)(std::string_view file);
  // The directory has a whole marker.
  bool (*is_committed)(const std::string& path);
};

class PublishedDirectory {
 public:
  // Creates the folders above `path` and the directory to write into; removes what no live process
  // holds, and puts back what was moved aside. Throws Error(kCheckpoint).
  PublishedDirectory(std::string path, Commit commit, DirectoryKind kind);
  // Without publish(): removes what was written.
  ~PublishedDirectory();
  PublishedDirectory(const PublishedDirectory&) = delete;
  PublishedDirectory& operator=(const PublishedDirectory&) = delete;

  // The folder where files are to be written and flushed, before publish(); in folders one level
  // deep, too.
  const std::string& working() const { return working_; }
  const std::string& path() const { return path_; }
  // Writes the marker and commits. An older directory of that name is removed, or kept beside it as
  // NAME.kept-* if it holds files of others.
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
  int lock_ = -1;  // holds the working directory against the cleaning of another process
  bool published_ = false;
};

// Tidies what killed processes left in a folder of step-XXXXXXXX, before somebody looks which are
// there: what was moved aside has its name again, unless its successor took it.
void put_back_steps(const std::string& folder);
// The same, and what is not committed, or was on its way out, is gone.
void clean_steps(const std::string& folder, const DirectoryKind& kind);

// Makes a folder and those above it, flushed; which of them were not there, parents first. Throws
// Error(kCheckpoint).
std::vector<std::string> make_folders(const std::string& path);

// Makes a folder in a working directory; one that is there, of another rank's making, is as good.
// Throws Error(kCheckpoint).
void ensure_folder(const std::string& path);

// A save left it unfinished, in marker mode, or writes it still.
bool is_unfinished(const std::string& path);
// Gives a directory the name NAME.kept-*, with all that is in it. Throws Error(kCheckpoint).
void keep_beside(const std::string& path);

// Nothing but files that are ours, in folders one level deep.
bool holds_only(const std::string& path, bool (*is_ours)(std::string_view file));

// Takes a directory that is committed, or was, away: no process finds it whole and then misses a
// file. Throws Error(kCheckpoint).
void remove_published(const std::string& path, Commit commit, const DirectoryKind& kind);

}  // namespace sluice::io
