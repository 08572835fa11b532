// Golden text files: tests/golden/<path>. Set SLUICE_UPDATE_GOLDEN=1 to rewrite them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sluice::testing {

inline void expect_golden(const std::string& path, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(SLUICE_TEST_DATA) / "golden" / path;
  if (const char* update = std::getenv("SLUICE_UPDATE_GOLDEN"); update && *update == '1') {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  std::ifstream stream(file, std::ios::binary);
  ASSERT_TRUE(stream) << file << " is missing: run with SLUICE_UPDATE_GOLDEN=1";
  const std::string expected{std::istreambuf_iterator<char>(stream),
                             std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, expected) << file
                            << " differs; if that is right, run with SLUICE_UPDATE_GOLDEN=1";
}

}  // namespace sluice::testing
