// Runs the program `sluice` and catches what it says.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <iterator>
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

inline ProgramResult run_sluice(const std::vector<std::string>& arguments) {
  const test::TempDirectory directory;
  const std::string out = directory / "out", err = directory / "err";
  std::string line = quoted_for_shell(SLUICE_PROGRAM);
  for (const std::string& argument : arguments) line += " " + quoted_for_shell(argument);
  line += " >" + quoted_for_shell(out) + " 2>" + quoted_for_shell(err) + " </dev/null";
  const auto read = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
}

}  // namespace sluice::testing
