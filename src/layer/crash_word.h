// Prints a line on stderr before a null pointer ends the process. The earlier SIGSEGV handler runs
// afterwards.
//
// A CrashWord belongs to the thread that makes it.
#pragma once

#include <string>

namespace sluice {

class CrashWord {
 public:
  // text: one line without "\n"; must outlive the object. The first CrashWord installs the handler.
  explicit CrashWord(const std::string& text);
  ~CrashWord();
  CrashWord(const CrashWord&) = delete;
  CrashWord& operator=(const CrashWord&) = delete;

 private:
  const std::string* outer_;
};

}  // namespace sluice
