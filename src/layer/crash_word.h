// Prints a line on stderr before an access through a null pointer ends the process. The SIGSEGV
// handler that was installed earlier runs afterwards.
//
// A CrashWord belongs to the thread that makes it.
#pragma once

#include <string>

namespace sluice {

class CrashWord {
 public:
  // Sets the line to print. `text` has no "\n" and must outlive the object. The first CrashWord
  // installs the signal handler.
  explicit CrashWord(const std::string& text);
  ~CrashWord();
  CrashWord(const CrashWord&) = delete;
  CrashWord& operator=(const CrashWord&) = delete;

 private:
  const std::string* outer_;
};

}  // namespace sluice
