#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/safetensors_header.h"
#include "data/array_file.h"
#include "data/jsonl_row.h"
#include "data/read_ahead.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::data {
namespace {

using test::error_of;
using test::TempDirectory;

using Bools = std::vector<std::uint8_t>;
using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Sizes = std::vector<std::int64_t>;
using Fields = std::vector<FieldOption>;

FieldValue parsed(const FieldOption& field, const std::string& value) {
  const Fields fields = {field};
  return parse_jsonl_row("{\"a\": 1, \"x\": " + value + ", \"b\": {}}", "rows.jsonl:7",
                         {.tokens = false, .fields = fields})
      .values.at(0);
}

Error refusal(const FieldOption& field, const std::string& value) {
  return error_of([&] { parsed(field, value); });
}

// ---- the numbers of one row ----

TEST(FieldTest, HasTheSizesAndTheNumbersOfItsLists) {
  const FieldValue image = parsed({"x", "float32", {2, 3}}, "[[1, 2.5, -3], [4e-1, 0, 1e3]]");
  EXPECT_EQ(image.sizes, (Sizes{2, 3}));
  EXPECT_EQ(std::get<Floats>(image.numbers), (Floats{1, 2.5F, -3, 0.4F, 0, 1000}));
  const FieldValue number = parsed({"x", "int64", {}}, "-9223372036854775808");
  EXPECT_EQ(number.sizes, Sizes());
  EXPECT_EQ(std::get<Integers>(number.numbers), Integers{std::numeric_limits<std::int64_t>::min()});
  const FieldValue deep = parsed({"x", "int32", {1, 1, 1, 2}}, "[[[[5, 6]]]]");
  EXPECT_EQ(deep.sizes, (Sizes{1, 1, 1, 2}));
  EXPECT_EQ(std::get<Integers>(deep.numbers), (Integers{5, 6}));
}

TEST(FieldTest, TakesSizesFromTheRowWhereAnyWillDo) {
  const FieldValue any = parsed({"x", "int64", {kAnySize, 2, kAnySize}}, "[[[1],[2]],[[3],[4]]]");
  EXPECT_EQ(any.sizes, (Sizes{2, 2, 1}));
  EXPECT_EQ(std::get<Integers>(any.numbers), (Integers{1, 2, 3, 4}));
  EXPECT_EQ(parsed({"x", "int64", {kAnySize, 2}}, "[]").sizes, (Sizes{0, 2}));
  EXPECT_EQ(parsed({"x", "int64", {kAnySize, kAnySize}}, "[[], []]").sizes, (Sizes{2, 0}));
}

TEST(FieldTest, TakesTruthValuesAndTheirNumbersForBool) {
  const FieldValue value = parsed({"x", "bool", {4}}, "[true, false, 1, 0]");
  EXPECT_EQ(std::get<Bools>(value.numbers), (Bools{1, 0, 1, 0}));
}

TEST(FieldTest, KeepsDoublesAndRoundsFloatsOnce) {
  EXPECT_EQ(std::get<Doubles>(parsed({"x", "float64", {1}}, "[0.1]").numbers), Doubles{0.1});
  EXPECT_EQ(std::get<Floats>(parsed({"x", "bfloat16", {1}}, "[0.1]").numbers), Floats{0.1F});
  EXPECT_EQ(std::get<Doubles>(parsed({"x", "float64", {}}, "18446744073709551615").numbers),
            Doubles{18446744073709551615.0});
}

TEST(FieldTest, AcceptsIdsBelowLimitOrIgnoredId) {
  const FieldOption field{"x", "int64", {kAnySize}, 5, -100};
  EXPECT_EQ(std::get<Integers>(parsed(field, "[0, 4, -100]").numbers), (Integers{0, 4, -100}));
  for (const auto& [text, fact] :
       {std::pair("[1, 5]", "5 in 'x' is outside of the vocabulary of 5"),
        std::pair("[-1]", "-1 in 'x' is outside of the vocabulary of 5")}) {
    const Error error = refusal(field, text);
    EXPECT_EQ(error.fact(), fact);
    EXPECT_EQ(error.where(), "rows.jsonl:7");
    EXPECT_EQ(error.remedy(),
              "the model takes 'x' as nested lists, int64[any] from 0 to 4 or -100");
  }
}

TEST(FieldTest, RefusesRaggedLists) {
  const FieldOption field{"x", "float32", {kAnySize, kAnySize}};
  Error error = refusal(field, "[[1, 2], [3]]");
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "rows.jsonl:7");
  EXPECT_EQ(error.fact(), "'x' has a list of 1 in its dimension 2, where 2 belong");
  EXPECT_EQ(error.remedy(), "the model takes 'x' as nested lists, float32[any, any]");
  EXPECT_EQ(refusal(field, "[[1], [2, 3]]").fact(),
            "dimension 2 of 'x' has a number beyond its size of 1");
  EXPECT_EQ(refusal(field, "[[1], 2]").fact(),
            "'x' has a number where a list of its dimension 2 belongs");
  EXPECT_EQ(refusal(field, "[[1], [[2]]]").fact(), "'x' has lists in its dimension 2, the last");
}

TEST(FieldTest, RefusesOtherSizesThanTheModelTakes) {
  const FieldOption field{"x", "float32", {2, 2}};
  EXPECT_EQ(refusal(field, "[[1, 2]]").fact(),
            "'x' has a list of 1 in its dimension 1, where 2 belong");
  EXPECT_EQ(refusal(field, "[[1, 2], [3, 4], [5, 6]]").fact(),
            "dimension 1 of 'x' has a list beyond its size of 2");
  EXPECT_EQ(refusal(field, "1").fact(), "'x' has a number where a list of its dimension 1 belongs");
  const Error error = refusal({"x", "float32", {}}, "[1]");
  EXPECT_EQ(error.fact(), "'x' is a list");
  EXPECT_EQ(error.remedy(), "the model takes 'x' as one number, float32");
}

TEST(FieldTest, RefusesWhatIsNoNumberOfItsType) {
  const FieldOption integer{"x", "int64", {1}}, real{"x", "float32", {1}}, truth{"x", "bool", {1}};
  EXPECT_EQ(refusal(integer, "[1.5]").fact(), "1.5, which is not an integer, in 'x'");
  EXPECT_EQ(refusal(integer, "[1180591620717411303424]").fact(),
            "1180591620717411303424 in 'x' is beyond int64");
  EXPECT_EQ(refusal(integer, "[1.0]").kind(), ErrorKind::kInput);
  EXPECT_EQ(refusal(integer, "[true]").fact(), "a truth value in 'x'");
  EXPECT_EQ(refusal(integer, "[9223372036854775808]").fact(), "a huge number in 'x'");
  EXPECT_EQ(refusal({"x", "int32", {}}, "2147483648").fact(),
            "2147483648 in 'x' is outside of the range of int32");
  EXPECT_EQ(refusal({"x", "uint8", {}}, "-1").fact(), "-1 in 'x' is outside of the range of uint8");
  EXPECT_EQ(refusal(truth, "[2]").fact(), "2 in 'x' is outside of the range of bool");
  EXPECT_EQ(refusal(truth, "[0.0]").kind(), ErrorKind::kInput);
  EXPECT_EQ(refusal(real, "[1e39]").fact(), "1e+39 in 'x' is beyond float32");
  EXPECT_EQ(refusal({"x", "float16", {}}, "65505").fact(), "65505 in 'x' is beyond float16");
  EXPECT_EQ(refusal(real, "[false]").fact(), "a truth value in 'x'");
  for (const FieldOption& field : {integer, real, truth}) {
    EXPECT_EQ(refusal(field, "[null]").fact(), "null in 'x'");
    EXPECT_EQ(refusal(field, "null").fact(), "null in 'x'");
    EXPECT_EQ(refusal(field, "[\"1\"]").fact(), "a string in 'x'");
    EXPECT_EQ(refusal(field, "[{\"y\": 1}]").fact(), "an object in 'x'");
    EXPECT_EQ(refusal(field, "{}").fact(), "an object in 'x'");
    EXPECT_EQ(refusal(field, "[NaN]").kind(), ErrorKind::kInput);
    EXPECT_EQ(refusal(field, "[1e999]").kind(), ErrorKind::kInput);
  }
}

// ---- arrays in .npy files ----

class NpyFieldTest : public testing::Test {
 protected:
  template <typename Number>
  void write_npy(const std::string& name, const std::string& header,
                 const std::vector<Number>& numbers) const {
    std::string text = header;
    while ((10 + text.size() + 1) % 64 != 0) text += ' ';
    text += '\n';
    std::string file = "\x93NUMPY";
    file += '\1';
    file += '\0';
    file += static_cast<char>(text.size() % 256);
    file += static_cast<char>(text.size() / 256);
    file += text;
    file.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
    test::write_file(folder_ / name, file);
  }
  static std::string header(const std::string& type, const std::string& shape) {
    return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  }
  FieldValue named(const FieldOption& field, const std::string& value = "\"x.npy\"") const {
    const Fields fields = {field};
    return parse_jsonl_row("{\"x\": " + value + "}", "rows.jsonl:7",
                           {.tokens = false, .fields = fields, .folder = folder_ / ""})
        .values.at(0);
  }
  std::string fact(const FieldOption& field, const std::string& value = "\"x.npy\"") const {
    return error_of([&] { named(field, value); }).fact();
  }

  const TempDirectory folder_;
};

TEST_F(NpyFieldTest, AFieldIsTheArrayInTheFileThatItNames) {
  write_npy("x.npy", header("<f4", "(2, 3)"), Floats{1, 2.5F, -3, 0.4F, 0, 1000});
  const FieldValue real = named({"x", "float32", {kAnySize, 3}});
  EXPECT_EQ(real, parsed({"x", "float32", {2, 3}}, "[[1, 2.5, -3], [0.4, 0, 1000]]"));
  write_npy("x.npy", header("<i8", "(3,)"), Integers{5, 6, 7});
  EXPECT_EQ(named({"x", "int64", {3}}), parsed({"x", "int64", {3}}, "[5, 6, 7]"));
  write_npy("x.npy", header("<f4", "(0, 3, 4)"), Floats{});
  EXPECT_EQ(named({"x", "float32", {kAnySize, 3, 4}}).sizes, (Sizes{0, 3, 4}));
}

TEST_F(NpyFieldTest, RefusesAnArrayThatTheFieldDoesNotTake) {
  const FieldOption real{"x", "float32", {2}};
  write_npy("x.npy", header("<f4", "(3,)"), Floats{1, 2, 3});
  EXPECT_EQ(fact(real), "dimension 1 of 'x' has a number beyond its size of 2");
  EXPECT_EQ(fact({"x", "int64", {3}}), "an array of the type '<f4' in 'x'");
  EXPECT_EQ(fact(real, "[\"x.npy\"]"), "a string in 'x'");
  EXPECT_EQ(fact(real, "\"x.bin\""), "a string in 'x'");
  EXPECT_NE(fact(real, "\"none.npy\""), "");
  write_npy("x.npy", header("<f4", "(2,)"), Floats{1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_EQ(fact(real), "a number that is not finite in 'x'");
  write_npy("x.npy", header("<i8", "(2,)"), Integers{4, 5});
  EXPECT_EQ(fact({.name = "x", .dtype = "int64", .sizes = {2}, .below = 5}),
            "5 in 'x' is outside of the vocabulary of 5");
}

TEST_F(NpyFieldTest, RefusesAFileThatIsNotAnArrayOfNumbers) {
  const FieldOption real{"x", "float32", {kAnySize}};
  write_npy("x.npy", header("|O", "(2,)"), Floats{1, 2});
  EXPECT_EQ(fact(real), "the array in the .npy file has numbers of the type '|O'");
  write_npy("x.npy", header("<f4", "(3,)"), Floats{1, 2});
  EXPECT_EQ(fact(real),
            "the array in the .npy file has 8 bytes of numbers, but its header requires 12");
  write_npy("x.npy", header("<f4", "(1000000000, 1000000000, 1000000000)"), Floats{1, 2});
  EXPECT_EQ(fact(real), "the array in the .npy file has more than 1073741824 bytes");
  write_npy("x.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", Floats{1, 2});
  EXPECT_EQ(fact(real), "the array in the .npy file is in Fortran's order");
  write_npy("x.npy", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
            Floats{1, 2});
  EXPECT_EQ(fact(real), "the .npy file has a structured array");
  test::write_file(folder_ / "x.npy", "text");
  EXPECT_EQ(fact(real), "it is not a .npy file of format 1, 2 or 3");
}

TEST_F(NpyFieldTest, HalfPrecisionIsWidened) {
  // 1, -2.5, the smallest positive number, the largest number.
  write_npy("x.npy", header("<f2", "(4,)"),
            std::vector<std::uint16_t>{0x3c00, 0xc100, 0x0001, 0x7bff});
  EXPECT_EQ(std::get<Floats>(named({"x", "float32", {4}}).numbers),
            (Floats{1, -2.5F, 0x1p-24F, 65504}));
  write_npy("x.npy", header("<f2", "(1,)"), std::vector<std::uint16_t>{0x7c00});
  EXPECT_EQ(fact({"x", "float32", {1}}), "a number that is not finite in 'x'");
}

// ---- tensors in safetensors files ----

class TensorFieldTest : public NpyFieldTest {
 protected:
  struct Tensor {
    std::string name, dtype;
    Sizes shape;
    std::string bytes;
  };
  template <typename Number>
  static std::string bytes_of(const std::vector<Number>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
  }
  void write_tensors(const std::string& name, const std::vector<Tensor>& tensors) const {
    SafetensorsHeader header;
    std::string data;
    for (const Tensor& tensor : tensors) {
      header.entries.push_back({tensor.name, tensor.dtype, tensor.shape, data.size(),
                                data.size() + tensor.bytes.size()});
      data += tensor.bytes;
    }
    const std::string text = to_json(header);
    const std::uint64_t length = text.size();
    test::write_file(
        folder_ / name,
        std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
  }
  Error refusal_of(const FieldOption& field, const std::string& value) const {
    return error_of([&] { named(field, value); });
  }
};

TEST_F(TensorFieldTest, AFieldIsTheTensorOfItsNameOrTheOneThatIsNamed) {
  write_tensors("rows.safetensors", {{"x", "F32", {2, 2}, bytes_of(Floats{1, 2.5F, -3, 0.4F})},
                                     {"7", "I64", {3}, bytes_of(Integers{5, 6, 7})},
                                     {"one", "F64", {}, bytes_of(std::vector<double>{0.1})},
                                     {"none", "F32", {0, 3, 4}, ""}});
  EXPECT_EQ(named({"x", "float32", {kAnySize, 2}}, "\"rows.safetensors\""),
            parsed({"x", "float32", {2, 2}}, "[[1, 2.5], [-3, 0.4]]"));
  EXPECT_EQ(named({"x", "int64", {3}}, "\"rows.safetensors:7\""),
            parsed({"x", "int64", {3}}, "[5, 6, 7]"));
  EXPECT_EQ(named({"x", "float64", {}}, "\"rows.safetensors:one\""),
            parsed({"x", "float64", {}}, "0.1"));
  EXPECT_EQ(named({"x", "float32", {kAnySize, 3, 4}}, "\"rows.safetensors:none\"").sizes,
            (Sizes{0, 3, 4}));
}

TEST_F(TensorFieldTest, EveryTypeOfNumbersIsTaken) {
  const std::uint8_t bytes[] = {1, 0};
  write_tensors("all.safetensors",
                {{"bool", "BOOL", {2}, {reinterpret_cast<const char*>(bytes), 2}},
                 {"u8", "U8", {1}, bytes_of(std::vector<std::uint8_t>{200})},
                 {"i8", "I8", {1}, bytes_of(std::vector<std::int8_t>{-100})},
                 {"i16", "I16", {1}, bytes_of(std::vector<std::int16_t>{-300})},
                 {"i32", "I32", {1}, bytes_of(std::vector<std::int32_t>{-70000})},
                 {"f16", "F16", {1}, bytes_of(std::vector<std::uint16_t>{0xc100})},
                 {"bf16", "BF16", {1}, bytes_of(std::vector<std::uint16_t>{0xc020})}});
  const auto tensor = [](const std::string& name) { return "\"all.safetensors:" + name + "\""; };
  EXPECT_EQ(named({"x", "bool", {2}}, tensor("bool")), parsed({"x", "bool", {2}}, "[true, false]"));
  for (const auto& [name, text] : {std::pair("u8", "[200]"), std::pair("i8", "[-100]"),
                                   std::pair("i16", "[-300]"), std::pair("i32", "[-70000]")})
    EXPECT_EQ(named({"x", "int32", {1}}, tensor(name)), parsed({"x", "int32", {1}}, text)) << name;
  for (const char* name : {"f16", "bf16"})
    EXPECT_EQ(named({"x", "float32", {1}}, tensor(name)), parsed({"x", "float32", {1}}, "[-2.5]"));
}

TEST_F(TensorFieldTest, RefusesATensorThatIsMissingOrDoesNotFit) {
  const FieldOption real{"x", "float32", {2}};
  const std::string path = folder_ / "t.safetensors";
  write_tensors("t.safetensors",
                {{"pixels", "F32", {3}, bytes_of(Floats{1, 2, 3})}, {"odd", "F8_E4M3", {2}, "ab"}});
  const Error missing = refusal_of(real, "\"t.safetensors\"");
  EXPECT_EQ(missing.fact(), "the safetensors file has no tensor 'x'");
  EXPECT_EQ(missing.where(), path);
  EXPECT_EQ(missing.remedy(), "one of: pixels, odd");
  EXPECT_EQ(refusal_of(real, "\"t.safetensors:pixel\"").remedy(), "did you mean 'pixels'?");
  const Error longer = refusal_of(real, "\"t.safetensors:pixels\"");
  EXPECT_EQ(longer.fact(), "dimension 1 of 'x' has a number beyond its size of 2");
  EXPECT_EQ(longer.where(), path);
  EXPECT_EQ(refusal_of({"x", "int64", {3}}, "\"t.safetensors:pixels\"").fact(),
            "an array of the type 'F32' in 'x'");
  EXPECT_EQ(refusal_of(real, "\"t.safetensors:odd\"").fact(),
            "the tensor 'odd' has numbers of the type 'F8_E4M3'");
  EXPECT_EQ(refusal_of(real, "\"none.safetensors:x\"").where(), folder_ / "none.safetensors");
}

TEST_F(TensorFieldTest, RefusesAFileThatIsNotOfTensors) {
  const FieldOption real{"x", "float32", {2}};
  const auto with = [&](const std::string& bytes) {
    test::write_file(folder_ / "t.safetensors", bytes);
    const Error error = refusal_of(real, "\"t.safetensors\"");
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_TRUE(error.where().starts_with(folder_ / "t.safetensors")) << error.what();
    return error.fact();
  };
  EXPECT_EQ(with("short"), "the safetensors file has no header");
  EXPECT_EQ(with("a text that is not one"),
            "the safetensors file ends within its header of 8367816168101388385 bytes");
  write_tensors("t.safetensors", {{"x", "F32", {2}, bytes_of(Floats{1, 2})}});
  const std::string whole = test::read_file(folder_ / "t.safetensors");
  EXPECT_NE(with(whole.substr(0, whole.size() - 1)), "");
}

TEST(FieldTest, RefusesAFieldThatIsMissingOrThereTwice) {
  const Fields fields = {{"x", "int64", {}}, {"y", "float32", {2}}};
  const RowFormat format{.tokens = false, .fields = fields};
  const Error missing = error_of([&] { parse_jsonl_row(R"({"x": 1, "z": 2})", "f:3", format); });
  EXPECT_EQ(missing.kind(), ErrorKind::kInput);
  EXPECT_EQ(missing.fact(), "the row has no 'y', an input of the model");
  EXPECT_EQ(missing.where(), "f:3");
  EXPECT_EQ(missing.remedy(), "give it float32[2]; the row has x, z");
  const Error twice =
      error_of([&] { parse_jsonl_row(R"({"x": 1, "y": [1, 2], "x": 1})", "f:3", format); });
  EXPECT_EQ(twice.fact(), "'x' occurs twice");
  EXPECT_EQ(error_of([&] { parse_jsonl_row("[1]", "f:3", format); }).remedy(),
            "a row is {\"x\": int64, \"y\": float32[2]}");
}

TEST(FieldTest, AreAskedForByNameAtTheTopOfARowAlone) {
  const Fields fields = {{"x", "int64", {}}};
  const JsonlRow row = parse_jsonl_row(R"({"other": {"x": [1, "a"]}, "list": [{"x": 2}], "x": 3})",
                                       "", {.tokens = false, .fields = fields});
  EXPECT_EQ(std::get<Integers>(row.values.at(0).numbers), Integers{3});
}

TEST(FieldTest, GoBeforeTheFieldsOfTokensAndStandBesideThem) {
  const Fields fields = {{"labels", "int64", {}}, {"text", "float32", {1}}};
  const JsonlRow alone = parse_jsonl_row(R"({"labels": 3, "text": [1], "input_ids": "none"})", "",
                                         {.tokens = false, .fields = fields});
  EXPECT_EQ(std::get<Integers>(alone.values.at(0).numbers), Integers{3});
  EXPECT_FALSE(alone.labels);
  EXPECT_FALSE(alone.input_ids);
  const JsonlRow beside = parse_jsonl_row(R"({"labels": 3, "text": [1], "input_ids": [7, 8]})", "",
                                          {.tokens = true, .fields = fields});
  EXPECT_EQ(beside.input_ids, (Integers{7, 8}));
  EXPECT_FALSE(beside.labels);
}

// ---- rows without tokens ----

class FieldRowsTest : public testing::Test {
 protected:
  FieldRowsTest() {
    std::string rows;
    for (int i = 0; i < 20; ++i) {
      const std::string number = std::to_string(i);
      rows += R"({"label": )" + number + R"(, "image": [)" + number + ", " + number + ".5]}\n";
    }
    write(rows);
  }
  void write(const std::string& text) const { test::write_file(path(), text); }
  std::string path() const { return folder_ / "rows.jsonl"; }
  TokenDataOptions options(bool shuffle = false) const {
    TokenDataOptions options;
    options.data.files = {path()};
    options.data.shuffle = shuffle;
    options.seed = 5;
    options.tokens = false;
    options.fields = {{"image", "float32", {kAnySize}}, {"label", "int64", {}}};
    return options;
  }
  static Integers labels_of(const TokenRows& rows) {
    Integers labels;
    for (const FieldValue& value : rows.fields.at(1).rows)
      labels.push_back(std::get<Integers>(value.numbers).at(0));
    return labels;
  }

  const TempDirectory folder_;
};

TEST_F(FieldRowsTest, AreTheirFieldsAlone) {
  const TokenData data(options());
  EXPECT_EQ(data.num_sequences(), 20);
  const TokenRows rows = data.read({18}, 3);
  EXPECT_EQ(rows.num_rows, 3);
  EXPECT_EQ(rows.seq_len, 0);
  EXPECT_TRUE(rows.ids.empty());
  ASSERT_EQ(rows.fields.size(), 2U);
  EXPECT_EQ(rows.fields[0].field, options().fields[0]);
  EXPECT_EQ(rows.fields[0].rows[1], (FieldValue{{2}, Floats{19, 19.5F}}));
  EXPECT_EQ(labels_of(rows), (Integers{18, 19, 0}));
}

TEST_F(FieldRowsTest, MayDifferInSizesFromRowToRow) {
  write("{\"image\": [1], \"label\": 0}\n{\"image\": [1, 2, 3], \"label\": 1}\n");
  const TokenRows rows = TokenData(options()).read({0}, 2);
  EXPECT_EQ(rows.fields[0].rows[0].sizes, Sizes{1});
  EXPECT_EQ(rows.fields[0].rows[1].sizes, Sizes{3});
}

TEST_F(FieldRowsTest, HaveTheSameSizesWithinAMicrobatch) {
  write(
      "{\"image\": [1], \"label\": 0}\n{\"image\": [1], \"label\": 1}\n"
      "{\"image\": [1, 2], \"label\": 2}\n{\"image\": [1, 2], \"label\": 3}\n");
  TokenDataOptions of_two = options();
  of_two.microbatch_size = 2;
  EXPECT_EQ(labels_of(TokenData(of_two).read({0}, 4)), (Integers{0, 1, 2, 3}));
  of_two.microbatch_size = 3;
  const TokenData data(of_two);
  // every replica throws, even if its own rows agree
  for (const BatchRange own : {BatchRange{0, 3}, BatchRange{3, 1}}) {
    const Error error = error_of([&] { data.step_share(1, 4, own); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), "step 1, " + path() + ":3");
    EXPECT_EQ(
        error.fact(),
        "'image' has the shape [2], but [1] in the first row of the microbatch, " + path() + ":1");
  }
}

TEST_F(FieldRowsTest, WithItemsOfTheirOwnMayDifferInTheirNumberWithinAMicrobatch) {
  write(
      "{\"image\": [[1, 2]]}\n{\"image\": []}\n{\"image\": [[3, 4], [5, 6]]}\n{\"image\": [[7, "
      "8]]}\n");
  TokenDataOptions two = options();
  two.microbatch_size = 2;
  two.fields = {
      {.name = "image", .dtype = "float32", .sizes = {kAnySize, kAnySize}, .concatenated = true}};
  const TokenRows rows = TokenData(two).read({0}, 4);
  EXPECT_EQ(rows.fields.at(0).rows.at(2).sizes, (Sizes{2, 2}));
  write("{\"image\": [[1, 2]]}\n{\"image\": [[3, 4, 5]]}\n");
  EXPECT_EQ(error_of([&] { TokenData(two).read({0}, 2); }).kind(), ErrorKind::kInput);
}

TEST_F(FieldRowsTest, CountAsRows) {
  const TokenData data(options());
  EXPECT_FALSE(data.counts_labels());
  EXPECT_EQ(data.step_share(1, 6, {2, 2}).total_counted, 6);
  data.require_counted_labels(100, 4);
}

TEST_F(FieldRowsTest, AreSharedAmongReplicasShuffledAndGoneOnWith) {
  const TokenData data(options(/*shuffle=*/true));
  Integers epoch;
  for (std::int64_t step = 1; step <= 5; ++step) {
    const TokenRows whole = data.step_rows(step, 4);
    const StepShare first = data.step_share(step, 4, {0, 2}),
                    second = data.step_share(step, 4, {2, 2});
    Integers both = labels_of(first.rows);
    const Integers rest = labels_of(second.rows);
    both.insert(both.end(), rest.begin(), rest.end());
    EXPECT_EQ(both, labels_of(whole)) << step;
    epoch.insert(epoch.end(), both.begin(), both.end());
  }
  EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
  const StepsDone done{2, {8}};
  Integers resumed = labels_of(TokenData(options(true)).step_rows(3, 12, done));
  EXPECT_EQ(resumed, Integers(epoch.begin() + 8, epoch.end()));
  std::sort(epoch.begin(), epoch.end());
  Integers all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(epoch, all);
}

TEST_F(FieldRowsTest, AreReadAheadAsTheyAreRead) {
  const TokenData data(options(true));
  ReadAhead ahead(data, {1, 6, 4, {}, {{0, {0, 2}}, {1, {2, 2}}}});
  for (std::int64_t step = 1; step <= 6; ++step) {
    EXPECT_EQ(ahead.take(step, 0).rows.fields, data.step_share(step, 4, {0, 2}).rows.fields);
    EXPECT_EQ(ahead.take(step, 1).rows.fields, data.step_share(step, 4, {2, 2}).rows.fields);
  }
}

TEST_F(FieldRowsTest, AreCountedByMicrobatchWhereTheModelSaysHowMuch) {
  TokenDataOptions of_three = options();
  of_three.microbatch_size = 3;
  const TokenData data(of_three);
  std::vector<Integers> asked;
  const MicrobatchCount count = [&](const TokenRows& rows) {
    asked.push_back(labels_of(rows));
    return 100 + rows.num_rows;
  };
  const std::vector<StepShare> shares = data.step_shares(1, 8, {{0, 4}, {4, 4}}, {}, count);
  EXPECT_EQ(asked, (std::vector<Integers>{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_EQ(shares[0].total_counted, 308);
  EXPECT_EQ(shares[1].total_counted, 308);
  EXPECT_EQ(labels_of(shares[1].rows), (Integers{4, 5, 6, 7}));
  const MicrobatchCount none = [](const TokenRows&) { return 0; };
  EXPECT_EQ(error_of([&] {
              data.step_shares(1, 2, {{0, 2}}, {}, none);
            }).kind(),
            ErrorKind::kInput);
}

TEST_F(FieldRowsTest, MalformedOnesAreNamedByFileLineAndStep) {
  write("{\"image\": [1], \"label\": 0}\n\n{\"image\": [[1]], \"label\": 0}\n");
  const Error error = error_of([&] { TokenData data(options()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), path() + ":3");
  // Opening the file checks only its first rows. This row comes later.
  std::string many;
  const std::string row = "{\"image\": [" + std::string(1 << 20, ' ') + "1], \"label\": 0}\n";
  for (int i = 0; i < 17; ++i) many += row;
  write(many + "{\"image\": [1]}\n");
  const TokenData data(options());
  for (const BatchRange own : {BatchRange{0, 1}, BatchRange{1, 1}}) {
    const Error late = error_of([&] { data.step_share(9, 2, own); });
    EXPECT_EQ(late.where(), "step 9, " + path() + ":18");
    EXPECT_EQ(late.fact(), "the row has no 'label', an input of the model");
  }
}

TEST_F(FieldRowsTest, ArraysInFilesAreNamedWithTheLineOfTheirRow) {
  write("{\"image\": [1], \"label\": 0}\n\n{\"image\": \"i/none.safetensors:3\", \"label\": 0}\n");
  const Error error = error_of([&] { TokenData data(options()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), path() + ":3, " + (folder_ / "i/none.safetensors"));
  EXPECT_EQ(error_of([&] { array_files_of(path(), options().fields); }).where(), error.where());
}

TEST_F(FieldRowsTest, TheArraysThatRowsNameAreListedOnce) {
  for (const char* name : {"a.npy", "b.safetensors", "c.npy", "label.npy"})
    test::write_file(folder_ / name, "");
  write(R"({"image": "b.safetensors:1", "label": 0, "other": "c.npy"}
{"image": [1, 2], "label": 1, "note": "not a.npy"}
{"label": 2, "image": "a.npy"}
{"image": "b.safetensors:2", "label": "label.npy"}
)");
  EXPECT_EQ(array_files_of(path(), options().fields),
            (std::vector<std::string>{folder_ / "b.safetensors", folder_ / "a.npy",
                                      folder_ / "label.npy"}));
}

TEST_F(FieldRowsTest, NeedJsonlAndNoOptionsOfTokens) {
  test::write_file(folder_ / "a.txt", "text");
  TokenDataOptions text = options();
  text.data.files = {folder_ / "a.txt"};
  const Error error = error_of([&] { TokenData data(text); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.fact(), "the data is text, but only rows have the model's inputs image, label");
  EXPECT_EQ(error.remedy(), "give .jsonl rows with these fields");

  const auto refused = [&](const auto& change) {
    TokenDataOptions changed = options();
    change(changed);
    const Error refusal = error_of([&] { TokenData data(changed); });
    EXPECT_EQ(refusal.kind(), ErrorKind::kUsage);
    return refusal.where();
  };
  EXPECT_EQ(refused([](auto& o) { o.data.pack = true; }), "`data.pack`");
  EXPECT_EQ(refused([](auto& o) { o.data.truncate = true; }), "`data.truncate`");
  EXPECT_EQ(refused([](auto& o) { o.data.pad = Padding::kLongest; }), "`data.pad`");
  EXPECT_EQ(refused([](auto& o) { o.data.assistant_only_loss = true; }),
            "`data.assistant_only_loss`");
  EXPECT_EQ(refused([](auto& o) { o.data.chat_template = ChatTemplate::kGemma; }),
            "`data.chat_template`");
  EXPECT_EQ(refused([](auto& o) { o.data.tokenizer = "bytes"; }), "`data.tokenizer`");
  for (const Fields& fields :
       {Fields{}, Fields{{"a", "complex64", {}}}, Fields{{"a", "int64", {-3}}},
        Fields{{"a", "int64", {kRowTokens}}}, Fields{{"a", "int64", {}}, {"a", "int64", {}}}}) {
    EXPECT_EQ(refused([&](auto& o) { o.fields = fields; }), "TokenDataOptions::fields");
  }
}

// ---- beside tokens ----

class FieldsBesideTokensTest : public FieldRowsTest {
 protected:
  TokenDataOptions options() const {
    TokenDataOptions options = FieldRowsTest::options();
    options.tokens = true;
    options.seq_len = 4;
    options.vocab_size = 100;
    options.fields = {{"types", "int64", {2, kRowTokens}}, {"score", "float32", {}}};
    return options;
  }
};

TEST_F(FieldsBesideTokensTest, ArePaddedAndCutAsTheTokensAre) {
  write(R"({"input_ids": [1, 2], "types": [[1, 2], [3, 4]], "score": 0.5}
{"input_ids": [1, 2, 3, 4, 5], "types": [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], "score": 1}
{"input_ids": [1, 2, 0], "attention_mask": [1, 1, 0], "types": [[1, 2, 9], [3, 4, 9]], "score": 2}
)");
  TokenDataOptions cut = options();
  cut.data.truncate = true;
  const TokenRows rows = TokenData(cut).read({0}, 3);
  EXPECT_EQ(rows.seq_len, 4);
  EXPECT_EQ(rows.fields[0].rows[0], (FieldValue{{2, 4}, Integers{1, 2, 0, 0, 3, 4, 0, 0}}));
  EXPECT_EQ(rows.fields[0].rows[1], (FieldValue{{2, 4}, Integers{1, 2, 3, 4, 6, 7, 8, 9}}));
  EXPECT_EQ(rows.fields[0].rows[2], rows.fields[0].rows[0]);
  EXPECT_EQ(rows.fields[1].rows[0], (FieldValue{{}, Floats{0.5F}}));
}

TEST_F(FieldsBesideTokensTest, HaveOneOfEachTokenOrAreRefused) {
  write(R"({"input_ids": [1, 2], "types": [[1], [3]], "score": 0.5})");
  const Error error = error_of([&] { TokenData data(options()); });
  EXPECT_EQ(error.where(), path() + ":1");
  EXPECT_EQ(error.fact(), "'types' has 1 in its dimension 2 for 2 tokens");
}

TEST_F(FieldsBesideTokensTest, StandBesideTextToo) {
  write(R"({"text": "ab", "types": [[1, 2], [3, 4]], "score": 0.5})");
  TokenDataOptions text = options();
  text.vocab_size = 256;
  const TokenRows rows = TokenData(text).read({0}, 1);
  EXPECT_EQ(rows.ids, (std::vector<std::int32_t>{97, 98, 0, 0}));
  EXPECT_EQ(rows.fields[0].rows[0].sizes, (Sizes{2, 4}));
}

TEST_F(FieldsBesideTokensTest, CannotBePacked) {
  TokenDataOptions packed = options();
  packed.data.pack = true;
  EXPECT_EQ(error_of([&] { TokenData data(packed); }).where(), "`data.pack`");
}

TEST_F(FieldsBesideTokensTest, StepsMayCountRowsInPlaceOfLabels) {
  write(R"({"input_ids": [1, 2], "labels": [-100, -100], "score": 1, "types": [[0, 0], [0, 0]]})");
  TokenDataOptions counted = options();
  EXPECT_EQ(error_of([&] { TokenData(counted).step_rows(1, 2); }).kind(), ErrorKind::kInput);
  counted.count = CountOf::kRows;
  const TokenData data(counted);
  data.require_counted_labels(3, 2);
  EXPECT_EQ(data.step_share(1, 2, {0, 1}).total_counted, 2);
}

TEST_F(FieldsBesideTokensTest, AMaskOrPositionsThatTheModelDoesNotTakeAreRefused) {
  TokenDataOptions without = options();
  without.fields = {};
  without.takes_mask = without.takes_positions = false;
  write(R"({"input_ids": [1, 2, 3], "attention_mask": [1, 1, 0], "position_ids": [0, 1, 2]})");
  // the mask hides nothing, and the positions are the usual ones
  const TokenRows plain = TokenData(without).read({0}, 1);
  EXPECT_TRUE(plain.attention_mask.empty());
  write(R"({"input_ids": [1, 2, 3], "attention_mask": [0, 1, 1]})");
  Error error = error_of([&] { TokenData data(without); });
  EXPECT_EQ(error.fact(), "'attention_mask' hides tokens, but is not an input of the model");
  EXPECT_EQ(error.where(), path() + ":1");
  write(R"({"input_ids": [1, 2, 3], "position_ids": [0, 0, 1]})");
  error = error_of([&] { TokenData data(without); });
  EXPECT_EQ(error.fact(), "position_ids[1] = 0, but 'position_ids' is not an input of the model");
  without.data.pack = true;
  EXPECT_EQ(error_of([&] { TokenData data(without); }).where(), "`data.pack`");
}

TEST_F(FieldsBesideTokensTest, PaddingIsMaskedWhereTokensWouldSeeIt) {
  TokenDataOptions masked = options();
  masked.fields = {};
  masked.masks_padding = true;
  write(
      "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 2, 3, 4]}\n"
      "{\"input_ids\": [1, 2, 3], \"attention_mask\": [0, 1, 1]}\n");
  const TokenData data(masked);
  EXPECT_EQ(data.read({0}, 3).attention_mask, (Bools{1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 0}));
  EXPECT_TRUE(data.read({1}, 1).attention_mask.empty());
}

}  // namespace
}  // namespace sluice::data
