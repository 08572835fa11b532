#include "archive/size_expression.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::error_of;

SizeExpression parsed(const std::string& text) { return SizeExpression::parse(text); }

std::int64_t at(const std::string& text, const SymbolValues& values = {{"s0", 17}, {"s1", 5}}) {
  return parsed(text).at(values);
}

// Replaces "@0" and "@1" by the symbols s0 and s1 in the notation of sympy's srepr.
std::string srepr(std::string text) {
  for (const char digit : {'0', '1'}) {
    const std::string mark = std::string("@") + digit;
    const std::string symbol = std::string("Symbol('s") + digit + "', positive=True, integer=True)";
    for (std::size_t i = text.find(mark); i != std::string::npos; i = text.find(mark))
      text.replace(i, mark.size(), symbol);
  }
  return text;
}

TEST(SizeExpressionTest, WorksOutEveryFunctionThatTorchWrites) {
  // Texts and values come from torch 2.13 and its sympy, for s0 = 17 and s1 = 5.
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      {"Integer(32)", 32},
      {"Integer(-1)", -1},
      {"@0", 17},
      {"Mul(Integer(32), @0)", 544},
      {"Add(@0, @1, Integer(-1))", 21},
      {"FloorDiv(@0, Integer(3))", 5},
      {"Mod(@0, @1)", 2},
      {"PythonMod(Add(@0, Integer(-20)), Integer(7))", 4},
      {"ModularIndexing(@0, Integer(2), Integer(5))", 3},
      {"CleanDiv(@0, @1)", 3},
      {"CeilDiv(@0, Integer(4))", 5},
      {"CeilToInt(IntTrueDiv(@0, @1))", 4},
      {"FloorToInt(FloatTrueDiv(ToFloat(@0), Float('2.5', precision=53)))", 6},
      {"TruncToInt(IntTrueDiv(@0, @1))", 3},
      {"TruncToInt(IntTrueDiv(Mul(Integer(-1), @0), @1))", -3},
      {"TruncToFloat(FloatTrueDiv(@0, Float('3.0', precision=53)))", 5},
      {"RoundToInt(IntTrueDiv(@0, Integer(2)))", 8},
      {"RoundToInt(IntTrueDiv(Add(@0, Integer(2)), Integer(2)))", 10},
      {"TruncToInt(Mul(Integer(10), RoundDecimal(Mul(Rational(1, 3), ToFloat(@0)), Integer(1))))",
       57},
      {"LShift(@0, Integer(2))", 68},
      {"RShift(@0, Integer(1))", 8},
      {"PowByNatural(@0, Integer(3))", 4913},
      {"FloorToInt(FloatPow(ToFloat(@0), Float('0.5', precision=53)))", 4},
      {"Max(Integer(5), @0, @1)", 17},
      {"Min(@0, @1)", 5},
      {"Where(StrictGreaterThan(@0, @1), @0, @1)", 17},
      {"Where(StrictGreaterThan(@1, @0), @0, @1)", 5},
      {"Identity(@0)", 17},
      {"CeilToInt(OpaqueUnaryFn_sqrt(@0))", 5},
      {"TruncToInt(OpaqueUnaryFn_log2(@0))", 4},
      {"TruncToInt(OpaqueUnaryFn_exp(@1))", 148},
      {"TruncToInt(Mul(Integer(1000), OpaqueUnaryFn_cos(@1)))", 283},
      {"TruncToInt(Mul(Integer(1000), OpaqueUnaryFn_atan(@1)))", 1373},
      {"BitwiseFn_bitwise_and(@0, @1)", 1},
      {"BitwiseFn_bitwise_or(@0, @1)", 21},
      {"BitwiseFn_bitwise_xor(@0, @1)", 20},
      {"floor(Mul(Rational(1, 2), @0))", 8},
      {"ceiling(Mul(Rational(1, 2), @0))", 9},
      {"floor(Mul(Rational(-1, 2), @0))", -9},
      {"Mul(Integer(34), Pow(@0, Integer(-1)))", 2},
      {"Pow(@0, Integer(2))", 289},
      {"Abs(Add(@1, Mul(Integer(-1), @0)))", 12},
      {"Equality(@0, @1)", 0},
      {"Unequality(@0, @1)", 1},
      {"StrictLessThan(@0, @1)", 0},
      {"LessThan(@0, @1)", 0},
      {"GreaterThan(@0, @1)", 1},
      {"And(StrictGreaterThan(@0, Integer(2)), StrictLessThan(@0, @1))", 0},
      {"Or(StrictLessThan(@0, @1), Not(Equality(@0, Integer(2))))", 1},
      {"true", 1},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(at(srepr(text)), value) << text;
}

TEST(SizeExpressionTest, ReadsPythonsOperatorsAsPythonDoes) {
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      {"32*s0", 544},      {"s0//2 + 1", 9},   {"s0 - s1 - 2", 10},    {"s0 - (s1 - 2)", 14},
      {"-s0//2", -9},      {"-s0 % 5", 3},     {"s0 % -5", -3},        {"2**3**2", 512},
      {"-2**2", -4},       {"4*2**-1", 2},     {"(-2)**2", 4},         {"s0*s1//s1*2", 34},
      {"s0//s1*s1", 15},   {"34/s0", 2},       {"floor(s0/2)", 8},     {"ceiling(s0/2)", 9},
      {"Max(s0, s1)", 17}, {"min(s0, s1)", 5}, {"s0 & 1 | 4", 5},      {"s0 ^ s1", 20},
      {"s0 > s1 > 4", 1},  {"s0 > s1 > 6", 0}, {"not s0 == s1", 1},    {"1 + 1 == 2", 1},
      {"0 or 1 and 0", 0}, {"True and s0", 1}, {"math.ceil(s0/4)", 5}, {"int(2.75*4)", 11},
      {"1e2 + 1", 101},    {"+s0", 17},        {"--s0", 17},           {"((s0))", 17},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(at(text), value) << text;
}

TEST(SizeExpressionTest, PrintsReadableText) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Mul(Integer(32), @0)", "32*s0"},
      {"Add(@0, Mul(Integer(-1), @1), Integer(-3))", "s0 - s1 - 3"},
      {"FloorDiv(Add(@0, Integer(3)), Integer(4))", "(s0 + 3)//4"},
      {"Mul(@1, FloorDiv(@0, @1))", "s1*(s0//s1)"},
      {"Max(Integer(5), @0)", "Max(5, s0)"},
      {"Pow(Add(@0, Integer(1)), Integer(2))", "(s0 + 1)**2"},
      {"Mul(Rational(1, 2), @0)", "Rational(1, 2)*s0"},
      {"Mul(Integer(36), Pow(@0, Integer(-1)))", "36*Pow(s0, -1)"},
      {"ToFloat(IntTrueDiv(@0, Integer(2)))", "float(s0/2)"},
      {"Not(Or(StrictLessThan(@0, @1), Equality(@0, Integer(2))))", "not (s0 < s1 or s0 == 2)"},
  };
  for (const auto& [text, said] : cases) {
    EXPECT_EQ(parsed(srepr(text)).text(), said);
    EXPECT_EQ(parsed(said).at({{"s0", 18}, {"s1", 5}}),
              parsed(srepr(text)).at({{"s0", 18}, {"s1", 5}}))
        << said;
  }
}

TEST(SizeExpressionTest, KnowsNumbersAndSymbols) {
  EXPECT_TRUE(parsed("Integer(3)").is_number());
  EXPECT_TRUE(parsed("Mul(Integer(3), Integer(4))").is_number());
  EXPECT_EQ(parsed("3*4").number(), 12);
  EXPECT_EQ(SizeExpression().number(), 0);
  EXPECT_EQ(parsed("s0").symbol(), "s0");
  EXPECT_EQ(parsed("s0 + 1").symbol(), std::nullopt);
  std::set<std::string> symbols;
  parsed("s0*(s1 + s0)//u2").add_symbols(symbols);
  EXPECT_EQ(symbols, (std::set<std::string>{"s0", "s1", "u2"}));
  EXPECT_EQ(parsed("2*s0 + 1"), parsed(srepr("Add(Mul(Integer(2), @0), Integer(1))")));
  EXPECT_FALSE(parsed("2*s0") == parsed("2*s1"));
  EXPECT_FALSE(parsed("s0") == parsed("1"));
}

TEST(SizeExpressionTest, DividesAsPythonDoes) {
  // Like Python floats, 1/49*49 is 0.9999999999999999 and 1.0//0.1 is 9.
  const SymbolValues one = {{"s0", 1}};
  EXPECT_EQ(at("int(s0/49*49)", one), 0);
  EXPECT_EQ(at(srepr("TruncToInt(Mul(IntTrueDiv(@0, Integer(49)), Integer(49)))"), one), 0);
  EXPECT_EQ(at("int(s0*49**-1*49)", one), 0);
  EXPECT_EQ(at("float(s0)//0.1", one), 9);
  EXPECT_EQ(at("-float(s0)//0.1", one), -10);
  EXPECT_EQ(at("float(s0)//0.25", one), 4);
  EXPECT_EQ(at("int(float(s0) % 0.1*1000)", one), 99);
  EXPECT_EQ(at(srepr("TruncToInt(Mul(Rational(1, 49), @0, Integer(49)))"), one), 1);
  EXPECT_EQ(at(srepr("CeilDiv(Add(@0, Integer(9007199254740992)), Integer(1))"), one),
            9007199254740993);
  const Error error = error_of([] { at("int((s0 + 9007199254740992)/1)", {{"s0", 1}}); });
  EXPECT_EQ(error.fact(),
            "a quotient of sizes has a number above 2^53, which no float holds exactly");
}

TEST(SizeExpressionTest, RefusesNumbersThatAreNoSizes) {
  const auto fact = [](const std::string& text, const SymbolValues& values) {
    const Error error = error_of([&] { at(text, values); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
    EXPECT_EQ(error.where(), "") << text;
    return error.fact();
  };
  const SymbolValues large = {{"s0", 1LL << 62}, {"s1", 0}};
  EXPECT_EQ(fact("s0 + s2", large), "the size 's2' has no value");
  EXPECT_EQ(fact("s0 + s0", large), "a size is beyond 64 bits");
  EXPECT_EQ(fact("s0*s0//s0", large), "a size is beyond 64 bits");
  EXPECT_EQ(fact("s0**9223372036854775807", large), "a size is beyond 64 bits");
  EXPECT_EQ(fact("int(float(s0)*4)", large), "a size is beyond 64 bits");
  EXPECT_EQ(at("s0 - 1 + s0", large), INT64_MAX);
  for (const char* text : {"s0//s1", "s0 % s1", "s0/s1", "s1**-1", "float(s0)//s1"})
    EXPECT_EQ(fact(text, large), "a size is divided by 0") << text;
  EXPECT_EQ(fact("s0/3", {{"s0", 4}}), "a size is 1.3333333333333333, not a whole number");
  EXPECT_EQ(fact("float(s0)/8", {{"s0", 4}}), "a size is 0.5, not a whole number");
  EXPECT_EQ(at("s1**0 + 1**9223372036854775807 + (-1)**9223372036854775807", large), 1);
  // the branch that is not taken is not evaluated
  EXPECT_EQ(at("Where(s1 == 0, 7, s0//s1)", large), 7);
  EXPECT_EQ(at("s1 == 0 or s0//s1 == 1", large), 1);
}

TEST(SizeExpressionTest, RefusesTextsThatAreNone) {
  for (const std::string text : {"",
                                 " ",
                                 "(",
                                 ")",
                                 "1 +",
                                 "s0 s1",
                                 "s0,",
                                 "Mul(",
                                 "Mul()",
                                 "Mul(s0,)",
                                 "FloorDiv(s0)",
                                 "Mod(s0, s1, 2)",
                                 "Nothing(s0)",
                                 "Symbol()",
                                 "Symbol(s0)",
                                 "Symbol('')",
                                 "Symbol('s0'",
                                 "Symbol('a b')",
                                 "Symbol('0')",
                                 "Integer('3')",
                                 "Float('x')",
                                 "Float('nan')",
                                 "Float(1)",
                                 "Integer(99999999999999999999)",
                                 "1e999",
                                 "1.2.3",
                                 "oo",
                                 "int_oo",
                                 "nan",
                                 "None",
                                 "lambda",
                                 "s0 if s1 else 2",
                                 "s0 = 1",
                                 "s0 == ",
                                 "not",
                                 "'s0'",
                                 "L",
                                 "L[",
                                 "L['x'",
                                 "L['x'].size()",
                                 "L['x'].size()[s0]",
                                 "L['x'].stride()[0]",
                                 "L[0]",
                                 "L['a.b'].size()[0]",
                                 "s0[0]",
                                 "1//0",
                                 "IsNonOverlappingAndDenseIndicator(s0, s1, s1, 1)",
                                 "@",
                                 "s0 << 2",
                                 "s0; s1",
                                 "\xff(",
                                 "__import__('os')"})
    EXPECT_EQ(error_of([&] { parsed(text); }).kind(), ErrorKind::kInput) << text;
}

TEST(SizeExpressionTest, ReadsSixtyFourLevelsAndNoMore) {
  const auto nested = [](const std::string& begin, const std::string& end, std::size_t depth) {
    std::string text = "s0";
    for (std::size_t i = 0; i < depth; ++i) text = begin + text + end;
    return text;
  };
  EXPECT_EQ(at(nested("(", ")", 64)), 17);
  EXPECT_EQ(at(nested("Mod(1 + ", ", 100)", 31)), 48);
  for (const std::string& text :
       {nested("(", ")", 65), nested("-", "", 70), nested("Mod(", ", 100)", 65),
        nested("2**", "", 70), nested("", "//1", 70), nested("", " % 9", 20000),
        nested("not ", "", 70), std::string(60000, '('), nested("1 if ", " else 2", 100)})
    EXPECT_EQ(error_of([&] { parsed(text); }).kind(), ErrorKind::kInput) << text.substr(0, 30);
  EXPECT_EQ(error_of([&] { parsed(nested("(", ")", 65)); }).fact(),
            "an expression of sizes is deeper than 64");
}

TEST(SizeExpressionTest, ReadsLongSumsInTimeThatGrowsWithThem) {
  std::string text = "s0";
  while (text.size() + 5 < (64 << 10)) text += "+s0*2";
  const SizeExpression sum = parsed(text);
  EXPECT_EQ(sum.at({{"s0", 1}}), static_cast<std::int64_t>(1 + 2 * ((text.size() - 2) / 5)));
  EXPECT_EQ(error_of([&] { parsed(text + "+s0*2"); }).kind(), ErrorKind::kInput);
}

TEST(SizeRuleTest, HoldsAsItsTextSays) {
  const SizeRule rule = SizeRule::parse("L['pixel_values'].size()[0] == 3");
  EXPECT_EQ(rule.symbols(), (std::set<std::string>{"pixel_values.0"}));
  EXPECT_EQ(rule.text(), "L['pixel_values'].size()[0] == 3");
  EXPECT_TRUE(rule.holds({{"pixel_values.0", 3}}));
  EXPECT_FALSE(rule.holds({{"pixel_values.0", 4}}));
  const SizeRule either = SizeRule::parse("(s70 % 8) == 0 or s70 <= 2");
  EXPECT_TRUE(either.holds({{"s70", 16}}));
  EXPECT_TRUE(either.holds({{"s70", 1}}));
  EXPECT_FALSE(either.holds({{"s70", 9}}));
  const SizeRule labels = SizeRule::parse("((-1) + L['labels'].size()[1]) != 1");
  EXPECT_FALSE(labels.holds({{"labels.1", 2}}));
  EXPECT_TRUE(labels.holds({{"labels.1", 3}}));
  const SizeRule parts =
      SizeRule::parse("Eq(L['more'][0]['a'].size()[1], L[\"x\"].shape[0]) & (L['count'] > 2)");
  EXPECT_EQ(parts.symbols(), (std::set<std::string>{"more_0_a.1", "x.0", "count"}));
  EXPECT_TRUE(parts.holds({{"more_0_a.1", 3}, {"x.0", 3}, {"count", 3}}));
  EXPECT_FALSE(parts.holds({{"more_0_a.1", 3}, {"x.0", 3}, {"count", 2}}));
  EXPECT_TRUE(SizeRule::parse("True").holds({}));
  EXPECT_TRUE(SizeRule::parse("~(s0 < 2) | Ne(s0, 1)").holds({{"s0", 2}}));
  EXPECT_FALSE(SizeRule::parse("~(s0 < 2) & Ne(s0, 3)").holds({{"s0", 3}}));
}

TEST(SizeRuleTest, RejectsTextWithoutComparison) {
  for (const std::string text :
       {"s70", "s70 + 1", "3", "L['x'].size()[0]", "Max(s0, s1)", "", "x =="})
    EXPECT_EQ(error_of([&] { SizeRule::parse(text); }).kind(), ErrorKind::kInput) << text;
  const SizeRule rule = SizeRule::parse("100 // L['x'].size()[0] > 2");
  EXPECT_EQ(error_of([&] { rule.holds({{"x.0", 0}}); }).fact(), "a size is divided by 0");
  EXPECT_EQ(error_of([&] { rule.holds({}); }).fact(), "the size 'x.0' has no value");
}

}  // namespace
}  // namespace sluice::detail
