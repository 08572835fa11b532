// The expected matches are those of Python's re.fullmatch. tests/oracle/check_keys.py compares more
// expressions.
#include "family/lora/module_expression.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace sluice::module_expression_test {
namespace {

using detail::ModuleExpression;

bool matches(const std::string& expression, const std::string& name) {
  return ModuleExpression(expression).matches(name);
}

TEST(ModuleExpressionTest, MatchesWholeNamesAsPythonDoes) {
  const std::string name = "model.layers.10.self_attn.q_proj";
  EXPECT_TRUE(matches(R"(model\.layers\.\d+\.self_attn\.(q|v)_proj)", name));
  EXPECT_TRUE(matches(R"(.*\.(1|10)\.(?:self_attn|mlp)\.[a-q]_proj)", name));
  EXPECT_TRUE(matches(R"(^(?!.*(vision|lm_head)).*(q_proj|fc\d)$)", name));
  EXPECT_TRUE(matches(R"((?=.*attn).+?\bq_proj)", name));
  EXPECT_TRUE(matches(R"(\w+(\.\w+){4})", name));
  EXPECT_TRUE(matches(R"([^k]*)", name));
  EXPECT_TRUE(matches("model[.]layers[.][0-9]{2}.*", name));
  EXPECT_TRUE(matches(R"((?P<a>.*)proj|lm_head)", "lm_head"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("a|", ""));
  EXPECT_TRUE(matches("a{,}b{}", "aab{}"));
  EXPECT_FALSE(matches("q_proj", name));
  EXPECT_FALSE(matches("model", name));
  EXPECT_FALSE(matches(R"(^(?!.*attn).*$)", name));
  EXPECT_FALSE(matches(R"(.*\D0\..*)", name));
  EXPECT_FALSE(matches("model[.]layers[.][0-9]{3}.*", name));
  EXPECT_FALSE(matches(R"(.*\Bq_proj)", name));
}

TEST(ModuleExpressionTest, TakesNoTimeForWhatBacktrackingWouldTryForever) {
  EXPECT_FALSE(matches("(a*)*(a|aa)+b", std::string(60, 'a')));
  EXPECT_TRUE(matches("(a*)*(a|aa)+", std::string(60, 'a')));
}

TEST(ModuleExpressionTest, RefusesWhatItDoesNotKnow) {
  for (const char* expression : {"(a", "a)", "[a", "*a", "a**", "a*+", "a{3,1}", "a{1000}",
                                 "(?<=a)b", "(?i)a", "\\1", "a\\", "[z-a]", "(?P=a)"}) {
    EXPECT_THROW(ModuleExpression{expression}, std::invalid_argument) << expression;
  }
  EXPECT_THROW(ModuleExpression(std::string(5000, 'a')), std::invalid_argument);
  EXPECT_THROW(ModuleExpression(std::string(100, '(') + std::string(100, ')')),
               std::invalid_argument);
}

}  // namespace
}  // namespace sluice::module_expression_test
