// A word on stderr before a null pointer ends the process: C++ has no way to turn the signal into
// an error that others can catch.
//
// Owns: the message while a thread runs the user's code, and the handler of SIGSEGV that prints it.
// Does not own: the end of the process: it ends as before, by the earlier handler. Thread-safety: a
// CrashWord belongs to the thread that made it.
#pragma once

#include <string>

namespace sluice {

class CrashWord {
 public:
  // text: one line without its end; must outlive the object. The first that is made in the process
  // installs the handler.
  explicit CrashWord(const std::string& text);
  ~CrashWord();
  CrashWord(const CrashWord&) = delete;
  CrashWord& operator=(const CrashWord&) = delete;

 private:
  const std::string* outer_;
};

}  // namespace sluice
