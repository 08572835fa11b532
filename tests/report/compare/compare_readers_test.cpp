#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "report/compare/compared_run.h"
#include "report/compare/event_reader.h"
#include "report/compare/tensor_distance.h"
#include "report/event_file.h"
#include "sluice/error.h"
#include "support/fuzz_corpus.h"
#include "support/small_trainer.h"
#include "support/temp_directory.h"

extern "C" int fuzz_event_file(const std::uint8_t* data, std::size_t size);

namespace sluice {
namespace {

void expect_refused(const std::function<void()>& call, const std::string& where,
                    ErrorKind kind = ErrorKind::kInput) {
  try {
    call();
    ADD_FAILURE() << "accepted: " << where;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.where(), where) << error.what();
  }
}

TEST(CompareReadersTest, ReadsTheScalarsOfItsOwnEventFiles) {
  const test::TempDirectory folder;
  test::write_file(folder / "metrics.jsonl",
                   "{\"step\":1,\"loss\":2.5,\"lr\":0.5}\n{\"step\":2,\"loss\":2.25,\"lr\":0.5}\n");
  Scalars scalars;
  read_events(events_of_metrics(folder / "metrics.jsonl", 10).bytes, "events", scalars);
  EXPECT_EQ(scalars.curves.at("loss"), (ScalarCurve{{1, 2.5}, {2, 2.25}}));
  EXPECT_EQ(scalars.curves.at("lr").size(), 2u);
}

TEST(CompareReadersTest, ReadsScalarsStoredAsTensors) {
  Scalars scalars;
  read_events(testing::read_test_file("fuzz/corpus/event_file/good"), "events", scalars);
  EXPECT_EQ(scalars.curves.at("loss"), (ScalarCurve{{1, 2.5}, {2, 2.25}, {3, 2.0}}));
}

TEST(CompareReadersTest, NamesTheRecordWithAWrongChecksum) {
  std::string bytes = testing::read_test_file("fuzz/corpus/event_file/good");
  Scalars scalars;
  bytes.back() ^= 1;
  expect_refused([&] { read_events(bytes, "events", scalars); }, "events, record 4");
  bytes.pop_back();
  read_events(bytes, "events", scalars);  // the last record is incomplete
  EXPECT_EQ(scalars.curves.at("loss").size(), 2u);
}

TEST(CompareReadersTest, ReadsCsvWithAByteOrderMark) {
  const test::TempDirectory folder;
  test::write_file(folder / "a.csv", "\xef\xbb\xbfstep,loss\r\n1,2.5\r\n");
  Scalars scalars;
  read_csv_columns(folder / "a.csv", scalars);
  EXPECT_EQ(scalars.curves.at("loss"), (ScalarCurve{{1, 2.5}}));
  EXPECT_EQ(read_compared_run(folder.str(), 0).scalars.curves, scalars.curves);
}

TEST(CompareReadersTest, ReplaysTheEventFilesFoundSoFar) {
  testing::replay("event_file", fuzz_event_file);
}

TEST(CompareReadersTest, ReadsColumnsOfCsv) {
  const test::TempDirectory folder;
  const std::string file = folder / "log.csv";
  test::write_file(file, "Step,\"train, loss\",host\r\n1,2.50,a\r\n2,,b\r\n3,\"2.25\",c\r\n");
  Scalars scalars;
  read_csv_columns(file, scalars);
  EXPECT_EQ(scalars.curves.at("train, loss"), (ScalarCurve{{1, 2.5}, {3, 2.25}}));
  EXPECT_FALSE(scalars.curves.contains("host"));
}

TEST(CompareReadersTest, NamesTheLineOfAMalformedCsv) {
  const test::TempDirectory folder;
  const std::string file = folder / "log.csv";
  const auto expect_line = [&](const std::string& text, int line) {
    test::write_file(file, text);
    Scalars scalars;
    expect_refused([&] { read_csv_columns(file, scalars); }, file + ":" + std::to_string(line));
  };
  expect_line("loss\n1\n", 1);
  expect_line("step,loss\n1,2\n2\n", 3);
  expect_line("step,loss\n1,two\n", 2);
  expect_line("step,loss\n1.5,2\n", 2);
  expect_line("step,loss\n1,\"2\n", 2);
}

TEST(CompareReadersTest, NamesTheLineOfMalformedMetrics) {
  const test::TempDirectory folder;
  const std::string file = folder / "metrics.jsonl";
  const auto expect_line = [&](const std::string& text, int line) {
    test::write_file(file, text);
    Scalars scalars;
    expect_refused([&] { read_metrics_lines(file, scalars); }, file + ":" + std::to_string(line));
  };
  expect_line("{\"step\":1,\"loss\":2}\nnonsense\n", 2);
  expect_line("{\"loss\":2}\n", 1);
  expect_line("[1]\n", 1);
}

TEST(CompareReadersTest, DecodesEveryFloatDtype) {
  const auto value_of = [](const char* stored, std::uint64_t bits) {
    char bytes[8];
    std::memcpy(bytes, &bits, 8);
    double value = 0;
    to_doubles(*find_stored_float(stored), bytes, 1, &value);
    return value;
  };
  EXPECT_EQ(value_of("F64", 0x3ff8000000000000), 1.5);
  EXPECT_EQ(value_of("F32", 0xbfc00000), -1.5);
  EXPECT_EQ(value_of("BF16", 0x3fc0), 1.5);
  EXPECT_EQ(value_of("F16", 0xbe00), -1.5);
  EXPECT_EQ(value_of("F16", 0x0001), std::ldexp(1, -24));
  EXPECT_EQ(value_of("F16", 0x7c00), HUGE_VAL);
  EXPECT_TRUE(std::isnan(value_of("F16", 0x7e00)));
  EXPECT_EQ(find_stored_float("BF16")->ulp(1.5), std::ldexp(1, -7));
  EXPECT_EQ(find_stored_float("F32")->ulp(-4), std::ldexp(1, -21));
}

TEST(CompareReadersTest, MeasuresTheDistanceOfTensors) {
  const test::TempDirectory folder;
  test::write_tensors(folder / "a.safetensors", {{"w", {{4}, {1, 2, 3, 4}}}});
  test::write_tensors(folder / "b.safetensors", {{"w", {{4}, {2, 4, 6, 8.5}}}});
  TensorFiles files;
  const StoredTensor a = find_tensors(folder / "a.safetensors").at(0).at("w");
  const StoredTensor b = find_tensors(folder / "b.safetensors").at(0).at("w");
  const TensorDistance distance = tensor_distance(a, b, files);
  EXPECT_EQ(distance.elements, 4);
  EXPECT_EQ(distance.different, 4);
  EXPECT_EQ(distance.first, 0);
  EXPECT_DOUBLE_EQ(distance.scale, (2 + 8 + 18 + 34) / 30.0);
  EXPECT_DOUBLE_EQ(distance.largest_difference, 4.5);
  EXPECT_DOUBLE_EQ(distance.norm_difference, std::sqrt(1 + 4 + 9 + 20.25));
  EXPECT_DOUBLE_EQ(share_beyond(a, b, 1, 0.51, files), 0.25);
}

TEST(CompareReadersTest, FindsStepsInNames) {
  EXPECT_EQ(step_of_name("grads-step-3.safetensors"), 3);
  EXPECT_EQ(step_of_name("step-00000010"), 10);
  EXPECT_EQ(step_of_name("global_step20"), 20);
  EXPECT_EQ(step_of_name("checkpoint-500"), 500);
  EXPECT_EQ(step_of_name("model-00001-of-00002.safetensors"), -1);
  EXPECT_EQ(step_of_name("model.safetensors"), -1);
  EXPECT_EQ(step_of_name("iter_0000030"), 30);
  EXPECT_EQ(step_of_name("grads-step-3-rank-0.safetensors"), 3);
  EXPECT_EQ(step_of_name("grads-rank0.safetensors"), -1);
  EXPECT_EQ(step_of_name("7"), 7);
  EXPECT_TRUE(NaturalOrder()("layers.2.w", "layers.10.w"));
}

TEST(CompareReadersTest, JoinsTheFilesOfRanksAndLeavesOutWrappers) {
  const test::TempDirectory folder;
  test::write_tensors(folder / "grads-rank0.safetensors", {{"module.a._orig_mod.w", {{1}, {1}}}});
  test::write_tensors(folder / "grads-rank1.safetensors", {{"b.w", {{1}, {1}}}});
  const TensorSteps steps = find_tensors(folder.str());
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_TRUE(steps.at(0).contains("a.w"));
  EXPECT_TRUE(steps.at(0).contains("b.w"));
}

TEST(CompareReadersTest, RefusesATensorInTwoFilesOfAStep) {
  const test::TempDirectory folder;
  test::write_tensors(folder / "a.safetensors", {{"w", {{1}, {1}}}});
  test::write_tensors(folder / "b.safetensors", {{"w", {{1}, {1}}}});
  expect_refused([&] { find_tensors(folder.str()); }, folder / "b.safetensors, tensor 'w'");
}

TEST(CompareReadersTest, TakesTheLayoutFromTheLabelOrFromRunJson) {
  const test::TempDirectory folder;
  test::write_file(folder / "a/metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
  const ComparedRun labelled = read_compared_run("pp=2,zero=on:" + (folder / "a"), 0);
  EXPECT_EQ(labelled.axes, (std::map<std::string, std::string>{{"pp", "2"}, {"zero", "on"}}));
  EXPECT_EQ(labelled.path, folder / "a");
  test::write_file(folder / "a/run.json",
                   R"({"format":1,"starts":[{}],"plan":{"model":{"num_layers":3}},"settings":{)"
                   R"("parallelism.tensor_parallel_degree":{"value":4,"origin":"f:1:1"},)"
                   R"("metrics.folder":{"value":"x","origin":"f:2:1"},)"
                   R"("training.mixed_precision":{"value":"bfloat16","origin":"f:3:1"}}})");
  const ComparedRun own = read_compared_run(folder / "a", 1);
  EXPECT_EQ(own.axes, (std::map<std::string, std::string>{
                          {"tp", "4"}, {"training.mixed_precision", "bfloat16"}}));
  EXPECT_EQ(own.arithmetic->word, "bfloat16");
  EXPECT_EQ(own.layers, 3);
  expect_refused([&] { read_compared_run("pp=2,tp:" + (folder / "a"), 0); },
                 "pp=2,tp:" + (folder / "a"), ErrorKind::kUsage);
  expect_refused([&] { read_compared_run(folder / "none", 0); }, folder / "none");
}

}  // namespace
}  // namespace sluice
