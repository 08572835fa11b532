// A word on stderr before a null pointer ends the process: C++ has no way to turn the signal into
// an error that others can catch.
//
// Owns: what is said while a thread runs code of the user's, and the handler of SIGSEGV that says
// it. Does not own: how the process ends: as it would have, by the handler that was there before.
// Thread-safety: a CrashWord belongs to the thread that made it.
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
