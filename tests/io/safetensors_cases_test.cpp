// Our verdict on each file must equal that of the reference package.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "sluice/error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

nlohmann::json load_cases() {
  std::ifstream file(SLUICE_TEST_DATA "/reference/safetensors_cases.json");
  return nlohmann::json::parse(file).at("cases");
}

TEST(SafetensorsCasesTest, AgreesWithTheReferencePackageOnEveryFile) {
  const test::TempDirectory directory;
  const nlohmann::json cases = load_cases();
  ASSERT_GT(cases.size(), 100u);
  for (const nlohmann::json& item : cases) {
    const std::string id = item.at("id");
    SCOPED_TRACE(id);
    const std::string path = directory / "case.safetensors";
    test::write_file(path, from_hex(item.at("hex")));
    const std::string expected = item.value("sluice", item.at("reference").get<std::string>());
    try {
      std::vector<std::string> names = SafetensorsReader(path).names();
      EXPECT_EQ(expected, "accept");
      std::sort(names.begin(), names.end());
      EXPECT_EQ(names, item.value("names", std::vector<std::string>()));
    } catch (const Error& error) {
      EXPECT_EQ(expected, "refuse") << error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      const std::string line = error.what();
      EXPECT_NE(line.find("case.safetensors"), std::string::npos) << line;
      EXPECT_EQ(std::count_if(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }),
                0)
          << line;
    }
  }
}

// A torn copy must never be read as a smaller model.
TEST(SafetensorsCasesTest, RefusesEveryTruncationOfAGoodFile) {
  const test::TempDirectory directory;
  const std::string whole = from_hex(load_cases().at(0).at("hex"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string path = directory / "torn.safetensors";
    test::write_file(path, whole.substr(0, length));
    EXPECT_THROW(SafetensorsReader{path}, Error) << length << " bytes";
  }
}

}  // namespace
}  // namespace sluice
