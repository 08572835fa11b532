// Mutations are the same in every build.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "io/fuzz/properties.h"
#include "support/mutate.h"

namespace sluice {
namespace {

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
    const std::string bytes = test::mutate(seeds[random() % seeds.size()], seeds, random);
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
    accepted += test::check_jsonl_row(test::mutate(seeds[random() % seeds.size()], seeds, random));
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace sluice
