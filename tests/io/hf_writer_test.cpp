#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "sluice/parts/hf_directory.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::list_directory;
using test::read_file;
using test::TempDirectory;
namespace fs = std::filesystem;

const std::string kModels = SLUICE_TEST_DATA "/reference/models/";
const char* const kConfig = R"({"model_type": "llama", "vocab_size": 4, "dtype": "bfloat16"})";

ParameterInfo parameter(const std::string& name, const at::Tensor& value,
                        const std::string& tied_to = {}) {
  ParameterInfo info;
  info.name = name;
  info.global_shape = value.sizes().vec();
  info.tensor = value.clone().requires_grad_();
  info.tied_to = tied_to;
  return info;
}

// A whole checkpoint of one rank with one tensor.
std::string write_step(const std::string& folder, std::int64_t step, double value) {
  HfWriter writer(folder, step);
  const auto shards =
      write_hf_shards(writer.directory(), 0, {parameter("a", at::full({4}, value))});
  return writer.publish(shards, kConfig, "");
}

TEST(HfWriterTest, ASliceOfAParameterIsRefused) {
  const TempDirectory directory;
  HfWriter writer(directory.str(), 1);
  ParameterInfo part = parameter("a", at::ones({2, 3}));
  part.global_shape = {4, 3};
  part.slice = {{2, 2}, {0, 3}};
  const Error error = test::error_of([&] { write_hf_shards(writer.directory(), 0, {part}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_EQ(error.fact(), "'a' cannot be saved from [2:4, 0:3] of [4, 3] alone");
}

double value_of(const std::string& directory) {
  return HfDirectory(directory).locate("a").file->read("a")[0].item<double>();
}

std::uint64_t bytes_in(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory)) bytes += entry.file_size();
  return bytes;
}

TEST(HfWriterTest, TheSpaceThatIsAskedForHoldsEverythingThatIsWritten) {
  const TempDirectory directory;
  fs::copy(kModels + "llama_untied", directory / "model", fs::copy_options::recursive);
  test::write_file(directory / "model/tokenizer.json", std::string(5 << 20, 't'));
  const ModelSpec spec = read_model_spec(directory / "model");
  const HfDirectory source(directory / "model");
  std::vector<ParameterInfo> parameters;
  for (const std::string& name : source.names())
    parameters.push_back(parameter(name, source.locate(name).file->read(name).to(at::kFloat)));
  HfWriter writer(directory / "ck", 1);
  // Many small files have the longest headers.
  const auto shards = write_hf_shards(writer.directory(), 0, parameters, 1);
  const std::string path = writer.publish(shards, spec.config_text, directory / "model");
  const std::uint64_t asked = hf_directory_bytes(spec, directory / "model");
  EXPECT_GT(asked, bytes_in(path));
  EXPECT_LT(asked, bytes_in(path) + (2 << 20));
  EXPECT_EQ(asked - hf_directory_bytes(spec, ""), std::uint64_t{5} << 20);
}

TEST(HfWriterTest, WritesOneFileWhenThereIsOneShard) {
  const TempDirectory directory;
  const std::string path = write_step(directory / "deep/folder", 12, 1.0);
  EXPECT_EQ(path, directory / "deep/folder/step-00000012");
  EXPECT_EQ(list_directory(path), (std::set<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(list_directory(directory / "deep/folder"), std::set<std::string>{"step-00000012"});
  EXPECT_EQ(value_of(path), 1.0);
}

TEST(HfWriterTest, EveryRankWritesItsOwnShardsAndOneWritesTheIndex) {
  const TempDirectory directory;
  const at::Tensor embedding = at::randn({4, 2});
  HfWriter writer(directory.str(), 3);
  std::vector<std::vector<HfShard>> of_rank(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      std::vector<ParameterInfo> parameters;
      if (rank == 0)
        parameters = {parameter("embed", embedding), parameter("w0", at::full({8}, 0.0))};
      if (rank == 1)
        parameters = {parameter("w1", at::full({8}, 1.0)), parameter("w2", at::full({8}, 2.0))};
      if (rank == 2) parameters = {parameter("head", embedding, "embed")};
      of_rank[rank] = write_hf_shards(writer.directory(), rank, parameters, 40);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::vector<HfShard> shards;
  for (const auto& list : of_rank) {
    shards.insert(shards.end(), list.begin(), list.end());
  }
  EXPECT_TRUE(of_rank[2].empty()) << "another use of a tied parameter is not written";
  const std::string path = writer.publish(shards, kConfig, "");
  EXPECT_EQ(list_directory(path),
            (std::set<std::string>{
                "config.json", "model.safetensors.index.json", "model-00001-of-00004.safetensors",
                "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
                "model-00004-of-00004.safetensors"}));
  const auto index = nlohmann::json::parse(read_file(path + "/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 4 * 2 * 4 + 3 * 32);
  EXPECT_EQ(index["weight_map"]["w2"], "model-00004-of-00004.safetensors");
  const HfDirectory opened(path);
  EXPECT_EQ(opened.names(), (std::vector<std::string>{"embed", "w0", "w1", "w2"}));
  EXPECT_TRUE(opened.locate("embed").file->read("embed").equal(embedding));
  EXPECT_EQ(opened.locate("w1").file->metadata().at("format"), "pt");
}

TEST(HfWriterTest, RefusesATensorOfTwoRanksAndLeavesNothing) {
  const TempDirectory directory;
  {
    HfWriter writer(directory.str(), 1);
    std::vector<HfShard> shards =
        write_hf_shards(writer.directory(), 0, {parameter("a", at::ones({2}))});
    shards.push_back(write_hf_shards(writer.directory(), 1, {parameter("a", at::ones({2}))}).at(0));
    EXPECT_EQ(error_of([&] { writer.publish(shards, kConfig, ""); }).kind(), ErrorKind::kInternal);
  }
  EXPECT_TRUE(list_directory(directory.str()).empty());
}

TEST(HfWriterTest, KeepsTheConfigurationButForTheDtype) {
  const TempDirectory directory;
  HfWriter writer(directory.str(), 1);
  const auto shards = write_hf_shards(writer.directory(), 0, {parameter("a", at::ones({2}))});
  const std::string path = writer.publish(
      shards,
      R"({"zeta": [1, 2], "model_type": "llama", "torch_dtype": "bfloat16", "x": {"y": null}})",
      "");
  EXPECT_EQ(
      nlohmann::json::parse(read_file(path + "/config.json")),
      nlohmann::json::parse(
          R"({"zeta": [1, 2], "model_type": "llama", "torch_dtype": "float32", "x": {"y": null},
                                      "architectures": ["LlamaForCausalLM"]})"));
  EXPECT_LT(read_file(path + "/config.json").find("zeta"),
            read_file(path + "/config.json").find("model_type"));
}

TEST(HfWriterTest, AModelThatWasReadBareIsWrittenAsTheLanguageModelThatItIs) {
  for (const auto& [type, architecture] : {std::pair{"gpt2", "GPT2LMHeadModel"},
                                           {"llama", "LlamaForCausalLM"},
                                           {"qwen2", "Qwen2ForCausalLM"}}) {
    const TempDirectory directory;
    HfWriter writer(directory.str(), 1);
    const auto shards = write_hf_shards(writer.directory(), 0, {parameter("a", at::ones({2}))});
    const nlohmann::json config = {{"model_type", type}, {"architectures", {"BareModel"}}};
    const std::string path = writer.publish(shards, config.dump(), "");
    EXPECT_EQ(nlohmann::json::parse(read_file(path + "/config.json"))["architectures"],
              nlohmann::json({architecture}));
  }
}

TEST(HfWriterTest, CopiesTheTokenizerOfTheSource) {
  const TempDirectory directory;
  test::write_file(directory / "source/tokenizer.json", std::string(3'000'000, 'x'));
  test::write_file(directory / "source/merges.txt", "");
  test::write_file(directory / "source/model.safetensors", "not copied");
  test::write_file(directory / "source/README.md", "not copied");
  HfWriter writer(directory / "out", 1);
  const auto shards = write_hf_shards(writer.directory(), 0, {parameter("a", at::ones({2}))});
  const std::string path = writer.publish(shards, kConfig, directory / "source");
  EXPECT_EQ(list_directory(path), (std::set<std::string>{"config.json", "model.safetensors",
                                                         "tokenizer.json", "merges.txt"}));
  EXPECT_EQ(read_file(path + "/tokenizer.json").size(), 3'000'000u);
}

TEST(HfWriterTest, ReplacesAnOlderCheckpointOfTheSameStep) {
  const TempDirectory directory;
  write_step(directory.str(), 5, 1.0);
  HfWriter writer(directory.str(), 5);
  const auto shards = write_hf_shards(writer.directory(), 0, {parameter("a", at::full({4}, 2.0))});
  EXPECT_EQ(value_of(directory / "step-00000005"), 1.0);
  writer.publish(shards, kConfig, "");
  EXPECT_EQ(value_of(directory / "step-00000005"), 2.0);
  EXPECT_EQ(list_directory(directory.str()), std::set<std::string>{"step-00000005"});
}

TEST(HfWriterTest, NeverRemovesFilesOfOthers) {
  const TempDirectory directory;
  write_step(directory.str(), 5, 1.0);
  test::write_file(directory / "step-00000005/notes.txt", "mine");
  write_step(directory.str(), 5, 2.0);
  EXPECT_EQ(value_of(directory / "step-00000005"), 2.0);
  const std::set<std::string> names = list_directory(directory.str());
  ASSERT_EQ(names.size(), 2u);
  const std::string kept = *names.rbegin();
  EXPECT_TRUE(kept.starts_with("step-00000005.kept-")) << kept;
  EXPECT_EQ(value_of(directory / kept), 1.0);
  EXPECT_EQ(read_file(directory / (kept + "/notes.txt")), "mine");
}

TEST(HfWriterTest, DoesNotWriteThroughALinkInPlaceOfTheCheckpoint) {
  const TempDirectory directory;
  fs::create_directories(directory / "elsewhere");
  fs::create_directories(directory / "out");
  fs::create_symlink(directory / "elsewhere", directory / "out/step-00000005");
  write_step(directory / "out", 5, 2.0);
  EXPECT_TRUE(list_directory(directory / "elsewhere").empty());
  EXPECT_FALSE(fs::is_symlink(directory / "out/step-00000005"));
}

TEST(HfWriterTest, CleansUpAfterKilledRunsButNotAfterLivingOnes) {
  const TempDirectory directory;
  fs::create_directories(directory / ".step-00000007.tmp-dead");
  test::write_file(directory / ".step-00000007.tmp-dead/model.safetensors", "torn");
  fs::create_directories(directory / ".step-00000008.tmp-alive");
  fs::create_directories(directory / ".step-x.tmp-foreign");
  const int lock = ::open((directory / ".step-00000008.tmp-alive").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  write_step(directory.str(), 9, 1.0);
  EXPECT_EQ(
      list_directory(directory.str()),
      (std::set<std::string>{".step-00000008.tmp-alive", ".step-x.tmp-foreign", "step-00000009"}));
  ::close(lock);
}

TEST(HfWriterTest, PutsBackWhatWasMovedAsideWhenTheSuccessorIsMissing) {
  const TempDirectory directory;
  write_step(directory.str(), 5, 1.0);
  fs::rename(directory / "step-00000005", directory / ".step-00000005.old-dead");
  write_step(directory.str(), 6, 2.0);
  EXPECT_EQ(value_of(directory / "step-00000005"), 1.0);
  fs::create_directories(directory / ".step-00000005.old-dead");
  write_step(directory.str(), 7, 2.0);
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{"step-00000005", "step-00000006", "step-00000007"}));
}

// Killed at any moment, a run leaves the old checkpoint or the new one under the final name.
TEST(HfWriterTest, AKilledReplacementLeavesTheOldOrTheNewCheckpoint) {
  const TempDirectory directory;
  write_step(directory.str(), 5, 1.0);
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (;;) write_step(directory.str(), 5, 2.0 + round);
      } catch (...) {
      }
      ::_exit(1);
    }
    ::usleep(static_cast<useconds_t>(500 + 700 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself";
    const double value = value_of(directory / "step-00000005");
    EXPECT_TRUE(value >= 1.0 && value <= 2.0 + round);
  }
  write_step(directory.str(), 6, 0.0);
  EXPECT_EQ(list_directory(directory.str()),
            (std::set<std::string>{"step-00000005", "step-00000006"}));
}

// Stands for a full disk: the limit on the size of a file makes write() fail in the same place.
TEST(HfWriterTest, AFullDiskLeavesTheOldCheckpointAndNothingElse) {
  const TempDirectory directory;
  write_step(directory.str(), 5, 1.0);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limited{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const Error error = error_of([&] {
    HfWriter writer(directory.str(), 5);
    write_hf_shards(writer.directory(), 0, {parameter("a", at::ones({100'000}))});
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(list_directory(directory.str()), std::set<std::string>{"step-00000005"});
  EXPECT_EQ(value_of(directory / "step-00000005"), 1.0);
}

TEST(CheckWritableTest, AcceptsFoldersThatCanBeCreatedAndCreatesNothing) {
  const TempDirectory directory;
  EXPECT_NO_THROW(check_writable(directory.str()));
  EXPECT_NO_THROW(check_writable(directory / "not/yet/there/"));
  EXPECT_TRUE(list_directory(directory.str()).empty());
}

TEST(CheckWritableTest, RefusesADiskThatCannotTakeTheWeights) {
  const TempDirectory directory;
  EXPECT_NO_THROW(check_writable(directory / "new", ErrorKind::kCheckpoint, 1000));
  const Error error = error_of(
      [&] { check_writable(directory / "new", ErrorKind::kCheckpoint, std::uint64_t{1} << 60); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(error.fact().find("needs 1024.00PiB, its disk has "), std::string::npos)
      << error.what();
  EXPECT_TRUE(list_directory(directory.str()).empty());
}

TEST(CheckWritableTest, RefusesALimitOnFilesBelowTheLargest) {
  const TempDirectory directory;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_NO_THROW(check_writable(directory / "new", ErrorKind::kCheckpoint, 8192, 4096));
  const Error error =
      error_of([&] { check_writable(directory / "new", ErrorKind::kCheckpoint, 8192, 8192); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(error.fact().find("files of at most 4.00KiB may be written"), std::string::npos)
      << error.what();
  EXPECT_NE(error.remedy().find("ulimit -f"), std::string::npos);
}

TEST(HfWriterTest, AWorkingFolderThatWasRemovedIsAnError) {
  const fs::path before = fs::current_path();
  Error error(ErrorKind::kInternal, {.what = ""});
  {
    const TempDirectory directory;
    fs::current_path(directory.str());
    fs::remove_all(directory.str());
    error = error_of([] { HfWriter writer("deep/folder", 1); });
    fs::current_path(before);
  }
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.fact(), "cannot create directory: No such file or directory");
}

TEST(CheckWritableTest, NamesWhatStandsInTheWay) {
  const TempDirectory directory;
  test::write_file(directory / "file", "");
  fs::create_symlink("nowhere", directory / "dangling");
  for (const std::string& folder :
       {directory / "file", directory / "file/below", directory / "dangling/below",
        std::string("/proc/self/nowhere")}) {
    const Error error = error_of([&] { check_writable(folder); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(error.fact().find(folder), std::string::npos) << error.what();
    EXPECT_FALSE(error.where().empty());
  }
  EXPECT_EQ(error_of([&] { check_writable(directory / "file", ErrorKind::kUsage); }).kind(),
            ErrorKind::kUsage);
}

}  // namespace
}  // namespace sluice
