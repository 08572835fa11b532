#include "command/fingerprints.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/file_fingerprint.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
const std::string kModel = SLUICE_TEST_DATA "/reference/models/llama_untied";

class FingerprintsTest : public testing::Test {
 protected:
  FingerprintsTest() {
    test::write_file(folder_ / "a.txt", std::string(1000, 'a'));
    test::write_file(folder_ / "b.txt", std::string(1000, 'b'));
  }
  RunConfig config(Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {{"model.path", kModel}, {"data.files", "[\"x.txt\"]"}});
    return load_run_config("", overrides, {});
  }
  Fingerprint data(const Overrides& overrides, const std::vector<std::string>& names) const {
    std::vector<std::string> files;
    for (const std::string& name : names) files.push_back(folder_ / name);
    return data_fingerprint(config(overrides), files);
  }
  static Fingerprint model(const std::string& path) {
    const ModelSpec spec = read_model_spec(path);
    return model_fingerprint(spec, open_weights_in(path, spec));
  }
  std::string copied(const std::string& name) const {
    fs::copy(kModel, folder_ / name, fs::copy_options::recursive);
    return folder_ / name;
  }
  static void replace_in(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = test::read_file(file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    test::write_file(file, text.replace(at, from.size(), to));
  }

  const test::TempDirectory folder_;
};

TEST_F(FingerprintsTest, DataIsItsFilesInTheirOrderBySizeAndContent) {
  const Fingerprint both = data({}, {"a.txt", "b.txt"});
  EXPECT_EQ(both.bytes, 2000u);
  EXPECT_NE(data({}, {"b.txt", "a.txt"}), both);
  EXPECT_NE(data({}, {"a.txt"}), both);
  fs::rename(folder_ / "a.txt", folder_ / "z.txt");
  fs::last_write_time(folder_ / "z.txt", fs::file_time_type::clock::now() - std::chrono::hours(9));
  EXPECT_EQ(data({}, {"z.txt", "b.txt"}), both) << "names and times do not count";
  test::write_file(folder_ / "z.txt", std::string(999, 'a') + "A");
  EXPECT_NE(data({}, {"z.txt", "b.txt"}), both);
  // The same bytes in total, divided into other files.
  test::write_file(folder_ / "z.txt", std::string(1000, 'a') + "b");
  test::write_file(folder_ / "b.txt", std::string(999, 'b'));
  EXPECT_NE(data({}, {"z.txt", "b.txt"}), both);
}

TEST_F(FingerprintsTest, ArraysThatRowsNameCountByContent) {
  TokenDataOptions rows;
  rows.tokens = false;
  rows.fields = {{"image", "float32", {kAnySize}}, {"mask", "bool", {kAnySize}}};
  const auto of_rows = [&] { return data_fingerprint(config(), {folder_ / "rows.jsonl"}, rows); };
  test::write_file(folder_ / "rows.jsonl",
                   "{\"image\": \"i/0.npy\"}\n{\"image\": \"i/all.safetensors:1\"}\n"
                   "{\"other\": \"i/9.npy\"}\n");
  for (const char* name : {"0.npy", "all.safetensors", "9.npy"})
    test::write_file(folder_ / (std::string("i/") + name), std::string(100, 'a'));
  const Fingerprint before = of_rows();
  const std::uint64_t text = fs::file_size(folder_ / "rows.jsonl");
  EXPECT_EQ(before.bytes, text + 200);
  test::write_file(folder_ / "i/9.npy", std::string(100, 'b'));
  EXPECT_EQ(of_rows(), before) << "no field of the model";
  for (const char* name : {"i/0.npy", "i/all.safetensors"}) {
    test::write_file(folder_ / name, std::string(99, 'a') + "b");
    EXPECT_NE(of_rows(), before) << name;
    test::write_file(folder_ / name, std::string(100, 'a'));
    EXPECT_EQ(of_rows(), before);
  }
  fs::remove(folder_ / "i/0.npy");
  const Error missing = test::error_of(of_rows);
  EXPECT_EQ(missing.where(), (folder_ / "rows.jsonl") + ":1, " + (folder_ / "i/0.npy"));
}

TEST_F(FingerprintsTest, ATokenizerCountsByItsContentWhereTextNeedsIt) {
  const std::string json = test::read_file(SLUICE_TEST_DATA "/reference/tokenizers/gpt2.json");
  for (const std::string name : {"one", "two", "ended"})
    test::write_file(folder_ / (name + "/tokenizer.json"), json);
  test::write_file(folder_ / "ended/tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  test::write_file(folder_ / "other/tokenizer.json", json + " ");
  test::write_file(folder_ / "ids.jsonl", "{\"input_ids\":[1]}\n");
  const auto with = [&](const std::string& tokenizer, const std::string& file) {
    return data({{"data.tokenizer", "\"" + (folder_ / tokenizer) + "\""}}, {file});
  };
  EXPECT_NE(with("one", "a.txt"), data({}, {"a.txt"}));
  EXPECT_EQ(with("one", "a.txt"), with("two", "a.txt")) << "paths do not count";
  EXPECT_NE(with("one", "a.txt"), with("ended", "a.txt"));
  EXPECT_NE(with("one", "a.txt"), with("other", "a.txt"));
  EXPECT_EQ(with("one", "ids.jsonl"), with("other", "ids.jsonl")) << "ids need none";
}

TEST_F(FingerprintsTest, DataIsAlsoWhatDecidesWhichSequenceComesWhen) {
  const Fingerprint plain = data({}, {"a.txt"});
  for (const auto& [key, value] : Overrides{{"training.seq_len", "16"},
                                            {"training.seed", "1"},
                                            {"data.shuffle", "false"},
                                            {"data.truncate", "true"},
                                            {"data.pack", "true"},
                                            {"data.pad", "\"longest\""},
                                            {"data.assistant_only_loss", "true"},
                                            {"data.chat_template", "\"gemma\""},
                                            {"data.format", "\"jsonl\""}})
    EXPECT_NE(data({{key, value}}, {"a.txt"}), plain) << key;
  for (const auto& [key, value] : Overrides{{"training.local_batch_size", "2"},
                                            {"training.steps", "7"},
                                            {"optimizer.lr", "1"},
                                            // same as from the file ending
                                            {"data.format", "\"text\""},
                                            // same as without a tokenizer
                                            {"data.tokenizer", "\"bytes\""}})
    EXPECT_EQ(data({{key, value}}, {"a.txt"}), plain) << key;
  // Without shuffling the seed has no effect.
  EXPECT_EQ(data({{"data.shuffle", "false"}, {"training.seed", "1"}}, {"a.txt"}),
            data({{"data.shuffle", "false"}}, {"a.txt"}));
}

TEST_F(FingerprintsTest, AModelIsWhatItComputesWhereverItLies) {
  const Fingerprint original = model(kModel);
  EXPECT_GT(original.bytes, 0u);
  const std::string copy = copied("copy");
  EXPECT_EQ(model(copy), original);
  replace_in(copy + "/config.json", "5.23.0", "9.9");
  replace_in(copy + "/config.json", "\"use_cache\": false", "\"use_cache\": true");
  replace_in(copy + "/config.json", "{", "{\"_name_or_path\": \"elsewhere\",");
  EXPECT_EQ(model(copy), original) << "a copy that another version wrote";
  const std::string other = copied("other");
  replace_in(other + "/config.json", "1e-05", "1e-06");
  EXPECT_NE(model(other), original);
}

TEST_F(FingerprintsTest, WeightsCountByContentAndDrawnOnesAsThat) {
  const Fingerprint original = model(kModel);
  const std::string copy = copied("copy");
  std::string file;
  for (const auto& entry : fs::directory_iterator(copy)) {
    if (entry.path().extension() == ".safetensors") file = entry.path();
  }
  ASSERT_FALSE(file.empty());
  std::string bytes = test::read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_file(file, bytes);
  EXPECT_EQ(model(copy).bytes, original.bytes);
  EXPECT_NE(model(copy), original);
  const Fingerprint drawn = model_fingerprint(read_model_spec(kModel), {});
  EXPECT_EQ(drawn.bytes, 0u);
  EXPECT_NE(drawn.hash, original.hash);
}

TEST_F(FingerprintsTest, SettingsAreTheKeysThatDecideNumbers) {
  const std::map<std::string, std::string> all = settings(config());
  EXPECT_EQ(all.at("optimizer.lr"), "3e-04");
  EXPECT_EQ(all.at("optimizer.betas"), "[0.9, 0.95]");
  EXPECT_EQ(all.at("model.dtype"), "\"float32\"");
  EXPECT_EQ(all.at("parallelism.scale_grads"), "\"tokens\"");
  for (const char* key :
       {"training.local_batch_size", "training.microbatch_size", "training.seq_len",
        "training.seed", "training.threads_per_rank", "training.trainable",
        "training.mixed_precision", "optimizer.name", "optimizer.eps", "optimizer.weight_decay",
        "optimizer.no_decay", "optimizer.max_norm", "lr_scheduler.warmup_steps",
        "lr_scheduler.decay", "lr_scheduler.min_lr_factor", "data.shuffle", "data.truncate"})
    EXPECT_TRUE(all.contains(key)) << key;
  for (const auto& [key, value] : all) {
    if (key == "validation.split") continue;  // decides which rows train
    for (const char* section :
         {"checkpoint.", "metrics.", "comm.", "validation.", "parallelism.pipeline",
          "parallelism.stage", "parallelism.transport", "model.path", "data.files",
          "training.steps"})
      EXPECT_FALSE(key.starts_with(section)) << key;
  }
  const Fingerprint plain = settings_fingerprint(all);
  EXPECT_EQ(settings_fingerprint(settings(config({{"training.steps", "7"}}))), plain);
  EXPECT_EQ(settings_fingerprint(settings(config({{"parallelism.pipeline_parallel_degree", "2"}}))),
            plain);
  EXPECT_NE(settings_fingerprint(settings(config({{"optimizer.lr", "1"}}))), plain);
}

TEST_F(FingerprintsTest, OfLargeFilesSoMuchIsReadThatItTakesSeconds) {
  constexpr std::uint64_t kMega = 1 << 20;
  EXPECT_EQ(counted_bytes(256 * kMega, 256 * kMega, 1), 256 * kMega);
  EXPECT_EQ(counted_bytes(256 * kMega + 1, 256 * kMega + 1, 1), 64 * kMega);
  EXPECT_EQ(counted_bytes(100 * kMega, 4096 * kMega, 50), 100 * kMega);
  EXPECT_EQ(counted_bytes(100 * kMega, 4097 * kMega, 50), 64 * kMega);
  EXPECT_EQ(counted_bytes(100 * kMega, 400'000 * kMega, 4096), kMega);
  EXPECT_EQ(counted_bytes(1000, 400'000 * kMega, 4096), 1000u);
  EXPECT_EQ(counted_bytes(kMega, 400'000 * kMega, 10'000'000), 2 * kSampledBlockBytes);
}

TEST_F(FingerprintsTest, ASampledFileCountsAtItsStartItsEndAndBetween) {
  const std::string file = folder_ / "large";
  const std::uint64_t size = kWholeFileBytes + 12'345;
  const auto digits_with = [&](std::optional<std::uint64_t> changed) {
    std::ofstream(file, std::ios::trunc).flush();
    fs::resize_file(file, size);
    if (changed) {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(static_cast<std::streamoff>(*changed));
      stream.put('x');
    }
    ContentHash hash;
    EXPECT_EQ(add_files({file}, hash), size);
    return hash.digits();
  };
  const std::string plain = digits_with(std::nullopt);
  const std::uint64_t blocks = kMostSampledBytes / kSampledBlockBytes;
  const std::uint64_t apart = (size - kSampledBlockBytes) / (blocks - 1);
  for (const std::uint64_t counted : {std::uint64_t{0}, size - 1, size - kSampledBlockBytes,
                                      500 * apart + 1000, apart + kSampledBlockBytes - 1})
    EXPECT_NE(digits_with(counted), plain) << counted;
  EXPECT_EQ(digits_with(kSampledBlockBytes + 1), plain) << "between two blocks";
}

}  // namespace
}  // namespace sluice
