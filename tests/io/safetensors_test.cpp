#include "io/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "sluice/error.h"
#include "support/bytes_read.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

const std::string kLlama = SLUICE_TEST_DATA "/reference/models/llama_untied/model.safetensors";
const std::string kDtypes = SLUICE_TEST_DATA "/reference/dtypes.safetensors";

using test::bytes_read_so_far;
using test::error_of;

SafetensorsWriter::Plan plan_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  SafetensorsWriter::Plan plan;
  for (const auto& [name, tensor] : tensors) plan.emplace_back(name, meta_of(tensor));
  return plan;
}

TEST(SafetensorsReaderTest, ReadsWhatThePythonPackageWrote) {
  const SafetensorsReader reader(kDtypes);
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8"}) {
    const at::Tensor tensor = reader.read(name);
    EXPECT_TRUE(tensor.to(at::kDouble).equal(at::tensor({0.0, 1.0, 2.0, 100.0}, at::kDouble)))
        << name;
  }
  EXPECT_EQ(reader.meta("BF16"), (TensorMeta{{4}, at::kBFloat16}));
  EXPECT_TRUE(reader.read("BOOL").equal(at::tensor({1, 0, 1}).to(at::kBool)));
  EXPECT_EQ(reader.read("scalar").item<float>(), 7.5f);
  EXPECT_EQ(reader.read("empty").sizes(), (at::IntArrayRef{3, 0, 2}));
  EXPECT_EQ(reader.metadata().at("format"), "pt");
}

TEST(SafetensorsReaderTest, ConvertsFloatingDtypesIntoTheDestination) {
  const SafetensorsReader reader(kDtypes);
  for (const char* name : {"F64", "F32", "F16", "BF16"}) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      at::Tensor tensor = at::empty({4}, dtype);
      reader.read_into(name, tensor);
      EXPECT_EQ(tensor.scalar_type(), dtype);
      EXPECT_TRUE(tensor.to(at::kDouble).equal(at::tensor({0.0, 1.0, 2.0, 100.0}, at::kDouble)));
    }
  }
}

TEST(SafetensorsReaderTest, RefusesNumbersThatFloat16CannotHold) {
  const test::TempDirectory folder;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto write = [&](const at::Tensor& tensor) {
    SafetensorsWriter writer(folder / "x.safetensors", {{"x", meta_of(tensor)}});
    writer.write("x", tensor);
    writer.finish();
  };
  at::Tensor half = at::empty({2}, at::kHalf), wide = at::empty({2});
  // 65519 rounds to 65504 in float16. Infinity stays infinity.
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    write(at::tensor({65519.0f, -infinity}).to(dtype));
    SafetensorsReader(folder / "x.safetensors").read_into("x", half);
    EXPECT_TRUE(half.to(at::kFloat).equal(at::tensor({65504.0f, -infinity})));
  }
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    write(at::tensor({1.0f, -131072.0f}).to(dtype));
    const SafetensorsReader reader(folder / "x.safetensors");
    const Error error = test::error_of([&] { reader.read_into("x", half); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.fact(), "float16 cannot hold -131072: it ends at 65504");
    EXPECT_NE(error.where().find("tensor 'x'"), std::string::npos) << error.where();
    reader.read_into("x", wide);
    EXPECT_EQ(wide[1].item<float>(), -131072.0f);
  }
}

TEST(SafetensorsReaderTest, FillsStridedDestinationsAndLeavesWithoutGraph) {
  const SafetensorsReader reader(kLlama);
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  const at::Tensor expected = reader.read(name);
  at::Tensor strided = at::zeros({64, 32}).t();
  reader.read_into(name, strided);
  EXPECT_TRUE(strided.equal(expected));
  at::Tensor leaf = at::zeros({32, 64}).requires_grad_();
  reader.read_into(name, leaf);
  EXPECT_TRUE(leaf.equal(expected));
  EXPECT_TRUE(leaf.is_leaf());
}

TEST(SafetensorsReaderTest, ReadsOnlyTheBytesOfTheTensorThatIsAskedFor) {
  bytes_read_so_far();
  const std::uint64_t overhead_start = bytes_read_so_far();
  const std::uint64_t overhead = bytes_read_so_far() - overhead_start;
  const SafetensorsReader reader(kLlama);
  at::Tensor norm = at::empty({64});
  const std::uint64_t before = bytes_read_so_far();
  reader.read_into("model.norm.weight", norm);
  // Reading the counter itself may take a byte or two more, because the number's length varies.
  EXPECT_NEAR(static_cast<double>(bytes_read_so_far() - before),
              static_cast<double>(64 * sizeof(float) + overhead), 2);
}

TEST(SafetensorsReaderTest, ReadsIntoMemoryAsAlignedAsTorchsOwn) {
  const SafetensorsReader reader(kLlama);
  for (const std::string& name : reader.names()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reader.read(name).data_ptr()) % 64, 0u) << name;
  }
}

TEST(SafetensorsReaderTest, NamesTheNearestTensorWhenOneIsMissing) {
  const SafetensorsReader reader(kLlama);
  const Error error = error_of([&] { reader.read("model.norm.wieght"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.remedy(), "did you mean 'model.norm.weight'?");
}

TEST(SafetensorsReaderTest, SaysExpectedAndFoundShapeAndDtype) {
  const SafetensorsReader reader(kLlama);
  at::Tensor longer = at::empty({65});
  EXPECT_EQ(error_of([&] { reader.read_into("model.norm.weight", longer); }).fact(),
            "expected float32[65], found float32[64]");
  at::Tensor integers = at::empty({64}, at::kLong);
  EXPECT_EQ(error_of([&] { reader.read_into("model.norm.weight", integers); }).fact(),
            "expected int64[64], found float32[64]");
}

TEST(SafetensorsReaderTest, TurnsAFileTruncatedWhileOpenIntoAnError) {
  const test::TempDirectory directory;
  const std::string path = directory / "model.safetensors";
  std::filesystem::copy_file(kLlama, path);
  const SafetensorsReader reader(path);
  ASSERT_EQ(::truncate(path.c_str(), 727'000), 0);
  const Error error = error_of([&] { reader.read("model.norm.weight"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "the file ends at byte 727000, but needs 727208 bytes");
}

TEST(SafetensorsReaderTest, NeverYieldsABoolThatIsNeitherTrueNorFalse) {
  const test::TempDirectory directory;
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}          )";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  test::write_file(directory / "b.safetensors", bytes + header + std::string("\x00\x02\xff", 3));
  const at::Tensor tensor = SafetensorsReader(directory / "b.safetensors").read("a");
  EXPECT_TRUE(tensor.equal(at::tensor({0, 1, 1}).to(at::kBool)));
  EXPECT_TRUE(tensor.view(at::kByte).equal(at::tensor({0, 1, 1}).to(at::kByte)));
}

TEST(SafetensorsReaderTest, RefusesDirectoriesPipesAndMissingFiles) {
  const test::TempDirectory directory;
  EXPECT_EQ(error_of([&] { SafetensorsReader reader(directory.str()); }).fact(),
            "not a regular file");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { SafetensorsReader reader(directory / "pipe"); }).fact(),
            "not a regular file");
  EXPECT_EQ(error_of([&] { SafetensorsReader reader(directory / "none"); }).kind(),
            ErrorKind::kInput);
}

TEST(SafetensorsWriterTest, WritesTheSameBytesAsThePythonPackage) {
  const test::TempDirectory directory;
  for (const std::string& original : {kLlama, kDtypes}) {
    const SafetensorsReader reader(original);
    const std::string path = directory / "copy.safetensors";
    SafetensorsWriter::Plan plan;
    std::vector<std::string> names = reader.names();
    for (const std::string& name : names) plan.emplace_back(name, reader.meta(name));
    SafetensorsWriter writer(path, plan, SafetensorsWriter::Placement::kAtomic, reader.metadata());
    std::reverse(names.begin(), names.end());
    for (const std::string& name : names) writer.write(name, reader.read(name));
    writer.finish();
    EXPECT_TRUE(test::read_file(path) == test::read_file(original)) << original;
  }
}

TEST(SafetensorsWriterTest, ConvertsAndFlattensWhileWriting) {
  const test::TempDirectory directory;
  const at::Tensor matrix = at::arange(6, at::kDouble).view({2, 3}).t();
  SafetensorsWriter writer(directory / "m.safetensors", {{"m", {{3, 2}, at::kFloat}}});
  writer.write("m", matrix);
  writer.finish();
  EXPECT_TRUE(
      SafetensorsReader(directory / "m.safetensors").read("m").equal(matrix.to(at::kFloat)));
}

TEST(SafetensorsWriterTest, KeepsTheOldFileUntilTheNewOneIsWhole) {
  const test::TempDirectory directory;
  const std::string path = directory / "model.safetensors";
  test::write_file(path, "old");
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {{"a", at::ones({4})},
                                                                   {"b", at::zeros({4})}};
  {
    SafetensorsWriter writer(path, plan_of(tensors));
    writer.write("a", tensors[0].second);
    EXPECT_EQ(test::read_file(path), "old");
    EXPECT_EQ(test::list_directory(directory.str()).size(), 2u);
  }
  EXPECT_EQ(test::read_file(path), "old");
  EXPECT_EQ(test::list_directory(directory.str()), std::set<std::string>{"model.safetensors"});
}

TEST(SafetensorsWriterTest, RefusesToPublishWithATensorMissing) {
  const test::TempDirectory directory;
  SafetensorsWriter writer(directory / "m.safetensors",
                           {{"a", {{1}, at::kFloat}}, {"b", {{1}, at::kFloat}}});
  writer.write("a", at::ones({1}));
  EXPECT_EQ(error_of([&] { writer.finish(); }).kind(), ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { writer.write("a", at::ones({1})); }).kind(), ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { writer.write("b", at::ones({2})); }).kind(), ErrorKind::kInternal);
}

TEST(SafetensorsWriterTest, FollowsTheUmask) {
  const test::TempDirectory directory;
  for (const mode_t mask : {mode_t{022}, mode_t{077}}) {
    const mode_t before = ::umask(mask);
    const std::string path = directory / std::to_string(mask);
    SafetensorsWriter writer(path, {});
    writer.finish();
    ::umask(before);
    struct stat status;
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
  }
}

// Simulates a full disk. A limit on the file size makes write() fail in the same place.
TEST(SafetensorsWriterTest, LeavesNothingWhenTheDiskIsFull) {
  const test::TempDirectory directory;
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limited{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const Error error = error_of([&] {
    SafetensorsWriter writer(directory / "m.safetensors", {{"a", {{1'000'000}, at::kFloat}}});
    writer.write("a", at::ones({1'000'000}));
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.fact(), "cannot write file: File too large");
  EXPECT_TRUE(test::list_directory(directory.str()).empty());
}

TEST(SafetensorsWriterTest, NamesAFolderThatDoesNotExist) {
  const Error error =
      error_of([] { SafetensorsWriter writer("/nonexistent/folder/m.safetensors", {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(std::string(error.what()).find("/nonexistent/folder"), std::string::npos);
}

}  // namespace
}  // namespace sluice
