// Prints a line on stderr before an access through a null pointer ends the process. The earlier
// SIGSEGV handler runs afterwards.
#pragma once

#include <string>

namespace sluice {

class CrashWord {
 public:
  // text: the line, without "\n"; must outlive the object. Applies to this thread. The first
  // CrashWord installs the signal handler.
  explicit CrashWord(const std::string& text);
  ~CrashWord();
  CrashWord(const CrashWord&) = delete;
  CrashWord& operator=(const CrashWord&) = delete;

 private:
  const std::string* outer_;
};

}  // namespace sluice
