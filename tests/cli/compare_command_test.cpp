#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using testing::ProgramResult;
using testing::run_sluice;

const std::string kFirst = "{\"step\":1,\"loss\":5,\"grad_norm\":1}\n";

class CompareCommandTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    test::write_file(folder_ / name, text);
    return folder_ / name;
  }
  const test::TempDirectory folder_;
};

TEST_F(CompareCommandTest, ExitsWithZeroForRoundingAndThreeForABug) {
  const std::string a = file("a.jsonl", kFirst);
  const std::string near = file("b.jsonl", "{\"step\":1,\"loss\":5.000001,\"grad_norm\":1}\n");
  const std::string far = file("c.jsonl", "{\"step\":1,\"loss\":5,\"grad_norm\":2}\n");
  const ProgramResult rounding = run_sluice({"compare", a, near});
  EXPECT_EQ(rounding.exit_code, 0) << rounding.err;
  EXPECT_NE(rounding.out.find("\nverdict: rounding: "), std::string::npos) << rounding.out;
  const ProgramResult bug = run_sluice({"compare", "pp=1:" + a, "pp=2:" + far, "--json"});
  EXPECT_EQ(bug.exit_code, 3);
  EXPECT_EQ(bug.err, "");
  const auto json = nlohmann::json::parse(bug.out);
  EXPECT_EQ(json.at("verdict"), "bug");
  EXPECT_EQ(json.at("axes"), nlohmann::json({"pp"}));
}

TEST_F(CompareCommandTest, CountsWhatIsEqual) {
  const std::string a = file("a.jsonl", kFirst + "{\"step\":2,\"loss\":4,\"grad_norm\":1}\n");
  const std::string shorter = file("b.jsonl", kFirst);
  const ProgramResult equal = run_sluice({"compare", a, shorter, "--terms", "4194304"});
  EXPECT_EQ(equal.exit_code, 0) << equal.err;
  EXPECT_NE(equal.out.find("equal: every bit of the 2 logged numbers in common"), std::string::npos)
      << equal.out;
}

TEST_F(CompareCommandTest, RefusesWhatItCannotCompare) {
  const std::string a = file("a.jsonl", kFirst);
  const auto expect_refused = [](const std::vector<std::string>& arguments, int exit_code,
                                 const std::string& part) {
    const ProgramResult result = run_sluice(arguments);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  expect_refused({"compare", a}, 2, "needs two runs or more");
  expect_refused({"compare", a, a, "--dtype", "bfloat"}, 2, "did you mean 'bfloat16'?");
  expect_refused({"compare", a, a, "--kind", "weight"}, 2, "did you mean 'weights'?");
  expect_refused({"compare", a, "pp=2,tp:" + a}, 2, "is not AXIS=VALUE");
  expect_refused({"compare", a, file("b.jsonl", kFirst + "nonsense\n")}, 3, "b.jsonl:2");
  const std::string weights =
      std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied/model.safetensors";
  expect_refused({"compare", a, a, "--start", weights}, 3, "have no tensor of ");
  expect_refused({"compare", a, folder_ / "none"}, 3, "no such file or folder");
}

}  // namespace
}  // namespace sluice
