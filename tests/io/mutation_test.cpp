// Mutated files against the properties that the fuzz targets check: the same in every build.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "io/fuzz/properties.h"

namespace sluice {
namespace {

// One to four edits: flip, drop, double or splice bytes, replace a number by one at a limit.
std::string mutate(std::string bytes, const std::vector<std::string>& others,
                   std::mt19937& random) {
  static const std::vector<std::string> kLimits = {"0",
                                                   "1",
                                                   "-1",
                                                   "8",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "18446744073709551615",
                                                   "18446744073709551616",
                                                   "1e3",
                                                   "[]",
                                                   "{}",
                                                   "\"a\""};
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
    const std::size_t at = below(bytes.size()),
                      count = std::min<std::size_t>(below(12), bytes.size() - at);
    switch (below(5)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, count));
        break;
      case 3: {
        const std::string& other = others[below(others.size())];
        bytes.insert(at, other.substr(below(other.size()), below(40)));
        break;
      }
      default: {
        const std::size_t digits = bytes.find_first_of("0123456789", at);
        if (digits == std::string::npos) break;
        const std::size_t end = bytes.find_first_not_of("0123456789", digits);
        bytes.replace(digits, (end == std::string::npos ? bytes.size() : end) - digits,
                      kLimits[below(kLimits.size())]);
      }
    }
  }
  return bytes;
}

TEST(MutationTest, NoSafetensorsHeaderBreaksItsInvariants) {
  std::ifstream file(SLUICE_TEST_DATA "/reference/safetensors_cases.json");
  std::vector<std::string> seeds;
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const nlohmann::json& item : document.at("cases")) {
    const std::string hex = item.at("hex");
    std::string bytes;
    for (std::size_t i = 16; i + 1 < hex.size() && i < 2000; i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    seeds.push_back(bytes);
  }
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 40'000; ++round) {
    const std::string bytes = mutate(seeds[random() % seeds.size()], seeds, random);
    const std::size_t brace = bytes.rfind('}');
    accepted += test::check_safetensors(
        bytes, brace == std::string::npos ? random() % (bytes.size() + 1) : brace + 1);
  }
  EXPECT_GT(accepted, 100);
}

TEST(MutationTest, NoRowAsksForMoreThanItsText) {
  const std::vector<std::string> seeds = {
      R"({"text":"a\u00e9b \"q\""})",
      R"({"input_ids":[1,2,3],"labels":[-100,2,3],"attention_mask":[1,1,0]})",
      R"({"meta":{"input_ids":[[1],{"text":"x"}],"n":null},"input_ids":[255]})"};
  std::mt19937 random(2);
  int accepted = 0;
  for (int round = 0; round < 40'000; ++round) {
    accepted += test::check_jsonl_row(mutate(seeds[random() % seeds.size()], seeds, random));
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace sluice
