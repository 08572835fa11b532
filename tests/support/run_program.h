#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/temp_directory.h"

namespace sluice::testing {

struct ProgramResult {
  int exit_code = -1;
  std::string out, err;
};

inline std::string quoted_for_shell(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Runs with empty stdin.
inline ProgramResult run_shell(const std::string& line) {
  const test::TempDirectory directory;
  const std::string out = directory / "out", err = directory / "err";
  const std::string command =
      "{ " + line + "; } >" + quoted_for_shell(out) + " 2>" + quoted_for_shell(err) + " </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, test::read_file(out), test::read_file(err)};
}

inline ProgramResult run_sluice(const std::vector<std::string>& arguments) {
  std::string line = quoted_for_shell(SLUICE_PROGRAM);
  for (const std::string& argument : arguments) line += " " + quoted_for_shell(argument);
  return run_shell(line);
}

// Counts WHAT; WHERE; REMEDY. A remedy with semicolons counts as one part.
inline int parts_of(const std::string& line) {
  int parts = 1;
  for (std::size_t at = 0; parts < 3 && (at = line.find("; ", at)) != std::string::npos; ++at) {
    ++parts;
  }
  return parts;
}

}  // namespace sluice::testing
