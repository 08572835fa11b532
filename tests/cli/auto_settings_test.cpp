#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "config/key_table.h"
#include "support/small_tokenizer.h"
#include "train_fixture.h"

namespace sluice::testing {
namespace {

struct Row {
  std::string key, became;
  std::vector<std::string> options;
};

class AutoSettingsTest : public TrainCommandTest {
 protected:
  AutoSettingsTest() {
    test::write_file(folder_ / "rows.jsonl", R"({"text": "the quick fox"})");
    test::write_file(
        folder_ / "chat.jsonl",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
    test::write_file(folder_ / "qwen.json", config_of("qwen2", 256));
    test::write_file(folder_ / "large.json", config_of("llama", 32768));
    fs::copy(kModel, folder_ / "words", fs::copy_options::recursive);
    test::write_file(folder_ / "words/tokenizer.json", test::SmallTokenizer().json());
  }

  static std::string config_of(const std::string& family, int vocabulary) {
    return nlohmann::json{{"model_type", family},     {"vocab_size", vocabulary},
                          {"hidden_size", 8},         {"intermediate_size", 16},
                          {"num_hidden_layers", 2},   {"num_attention_heads", 2},
                          {"num_key_value_heads", 2}, {"max_position_embeddings", 64}}
        .dump();
  }

  std::string files(const std::string& name) const {
    return "--data.files=[\"" + (folder_ / name) + "\"]";
  }
  std::string drawn(const std::string& name) const { return "--model.config=" + (folder_ / name); }

  // The rows start with the fall-back values.
  std::vector<Row> rows() const {
    const std::string none = "--model.path=";
    const std::string schedule = "--parallelism.pipeline_parallel_schedule=";
    return {{"data.format", "text", {}},
            {"data.format", "jsonl", {files("rows.jsonl")}},
            {"data.tokenizer", "bytes", {"--data.tokenizer=auto"}},
            {"data.tokenizer",
             folder_ / "words/tokenizer.json",
             {"--data.tokenizer=auto", "--model.path", folder_ / "words"}},
            {"data.chat_template",
             "chatml",
             {none, drawn("qwen.json"), files("chat.jsonl"), "--training.seq_len=64"}},
            {"training.device", "cpu", {}},
            {"training.fused", "LibTorch's operators", {"--model.dtype=bfloat16"}},
            {"training.fused", "fused operators", {}},
            {"training.loss_chunks", "off", {}},
            {"training.loss_chunks", "on", {none, drawn("large.json")}},
            {"parallelism.pipeline_parallel_schedule",
             chosen_schedule(),
             {schedule + "auto", "--parallelism.partition=cost"}},
            {"parallelism.stage_to_rank", "loop", {}},
            {"parallelism.stage_to_rank", "v", {schedule + "ZBVZeroBubble"}},
            {"parallelism.transport", "threads", {}},
            {"checkpoint.resume", "no checkpoint in " + out() + "/checkpoint", {}}};
  }

  std::string chosen_schedule() const {
    const ProgramResult planned =
        run_sluice({"plan", config(), "--json", "--parallelism.partition=cost",
                    "--parallelism.pipeline_parallel_schedule=auto"});
    const nlohmann::json chosen = nlohmann::json::parse(planned.out).at("auto");
    const int stages = chosen.at("stages_per_rank");
    return chosen.at("schedule").get<std::string>() + " with " + std::to_string(stages) +
           (stages == 1 ? " stage" : " stages") + " a rank";
  }

  // Joins the log lines about "auto" into one.
  static std::string auto_line(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string begin = "\nauto:\n";
    const std::size_t at = result.out.find(begin);
    if (at == std::string::npos) return "";
    EXPECT_EQ(result.out.find(begin, at + 1), std::string::npos) << "twice: " << result.out;
    std::istringstream lines(result.out.substr(at + begin.size()));
    std::string all = "auto";
    for (std::string line; std::getline(lines, line) && line.starts_with("  ");)
      all += (all == "auto" ? ": " : "; ") + line.substr(2);
    return all;
  }
  std::string auto_line_with(std::vector<std::string> options) const {
    fs::remove_all(out());
    options.insert(options.begin(), {"train", config(), "--training.steps=1"});
    return auto_line(run_sluice(options));
  }
};

TEST_F(AutoSettingsTest, EveryKeyThatCanBeAutoHasARow) {
  std::set<std::string> known, found;
  for (const Row& row : rows()) known.insert(row.key);
  for (const detail::Key& key : detail::key_table()) {
    if (!key.is_built) continue;
    const bool is_word = std::count(key.words.begin(), key.words.end(), "auto") > 0;
    const bool is_default = key.default_value() == detail::Value(std::string("auto"));
    const bool is_said = key.meaning.find("`auto`") != std::string::npos;
    if (is_word || is_default || is_said) found.insert(key.full_name());
  }
  EXPECT_EQ(found, known) << "give the new key a row here and in src/command/auto_settings.cpp";
}

TEST_F(AutoSettingsTest, LogsChosenValueOfEveryAutoKey) {
  for (const Row& row : rows()) {
    const std::string line = auto_line_with(row.options) + ";";
    EXPECT_NE(line.find(" " + row.key + " = " + row.became + ";"), std::string::npos)
        << row.key << " = " << row.became << "\n"
        << line;
  }
}

TEST_F(AutoSettingsTest, TheLineHasTheKeysThatAreAutoAndNoOthers) {
  EXPECT_EQ(auto_line_with({}),
            "auto: data.format = text; training.device = cpu; training.fused = fused "
            "operators; training.loss_chunks = off; parallelism.stage_to_rank = loop; "
            "parallelism.transport = threads; checkpoint.resume = no checkpoint in " +
                out() + "/checkpoint");
  EXPECT_EQ(auto_line_with({"--data.format=text", "--training.device=cpu", "--training.fused=off",
                            "--training.loss_chunks=off", "--parallelism.stage_to_rank=loop",
                            "--parallelism.transport=threads", "--checkpoint.resume=none"}),
            "");
}

TEST_F(AutoSettingsTest, TheCheckpointAndTheTransportOfProcessesAreNamed) {
  const std::vector<std::string> options = {"train", config(), "--training.steps=1"};
  ASSERT_NE(auto_line(run_sluice(options)), "");
  std::vector<std::string> launched = {"launch", "-n", "2", "--"};
  launched.insert(launched.end(), options.begin(), options.end());
  launched.back() = "--training.steps=2";
  const std::string line = auto_line(run_sluice(launched));
  EXPECT_NE(line.find("parallelism.transport = gloo; checkpoint.resume = " + out() +
                      "/checkpoint/step-00000001"),
            std::string::npos)
      << line;
}

}  // namespace
}  // namespace sluice::testing
