// tests/reference has results of the peer frameworks, one JSON file per subject.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::testing {

inline std::string read_test_file(const std::string& path) {
  std::ifstream file(std::string(SLUICE_TEST_DATA) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Fails if there are no cases.
inline std::vector<nlohmann::json> reference_cases(const std::string& file,
                                                   const std::string& function) {
  std::vector<nlohmann::json> cases;
  const auto document = nlohmann::json::parse(read_test_file("reference/" + file));
  for (const nlohmann::json& entry : document.at("cases")) {
    if (entry.at("function") == function) cases.push_back(entry);
  }
  EXPECT_FALSE(cases.empty()) << file << " " << function;
  return cases;
}

}  // namespace sluice::testing
