// Checks statements of the pages that something is rejected, not built, or accepted. Fails if a
// page no longer has the sentence or the program contradicts it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "support/run_program.h"

namespace sluice::testing {
namespace {

const std::string kSource = SLUICE_TEST_DATA "/..";
const std::string kReference = SLUICE_TEST_DATA "/reference/";
constexpr const char* kNotBuilt = "is not built yet";
constexpr const char* kPeersKey = "here is not built yet";
constexpr const char* kUndivided = "since it norms queries and keys over all heads";

struct Claim {
  std::string page, sentence;
  std::vector<std::string> arguments;  // "DIR" stands for a folder with the files below
  int exit_code = 0;
  std::string says = {};  // expected in stderr, if rejected
};

std::vector<std::string> planned(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"plan", "DIR/run.toml"});
  return overrides;
}

std::vector<std::string> trained(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"launch", "-n", "2", "--", "train", "DIR/run.toml"});
  return overrides;
}

std::vector<std::string> of_model(const std::string& name, std::vector<std::string> overrides) {
  overrides.push_back("--model.config=" + kReference + name);
  return planned(std::move(overrides));
}

std::vector<std::string> of_graph(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"--model.config=",
                                     "--model.graph=" SLUICE_TEST_DATA "/command/data/images.pt2"});
  return planned(std::move(overrides));
}

std::vector<std::string> of_base(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(),
                   {"--model.config=", "--model.path=" + kReference + "models/llama_untied"});
  return planned(std::move(overrides));
}

const std::vector<Claim>& claims() {
  static const std::vector<Claim> table = {
      // Statements "not built".
      {"README.md", "context parallelism | not yet",
       planned({"--parallelism.context_parallel_degree=2"}), 2, kNotBuilt},
      {"README.md", "is refused with \"not built yet\", never ignored",
       planned({"--model.rewrites=false"}), 2, kNotBuilt},
      {"docs/limits.md", "is refused with \"not built yet\", never ignored",
       planned({"--model.rewrites=false"}), 2, kNotBuilt},
      {"docs/configuration.md", "`nccl`: between processes of one GPU each",
       planned({"--parallelism.transport=nccl"}), 2, "is for GPUs, and this machine has none"},
      {"docs/configuration.md",
       "A key with this remark exists, and every value but those listed is refused (exit 2).",
       planned({"--model.rewrites=false"}), 2, kNotBuilt},
      {"docs/configuration.md", "`rewrites = true` (not built yet",
       planned({"--model.rewrites=false"}), 2, kNotBuilt},
      {"docs/configuration.md", "`context_parallel_degree = 1` (integer; not built yet",
       planned({"--parallelism.context_parallel_degree=2"}), 2, kNotBuilt},
      {"docs/configuration.md", "`context_parallel_slices = 0` (integer; not built yet",
       planned({"--parallelism.context_parallel_slices=2"}), 2, kNotBuilt},
      {"docs/configuration.md", "`context_parallel_method = \"alltoall\"` (not built yet",
       planned({"--parallelism.context_parallel_method=allgather"}), 2, kNotBuilt},
      {"docs/configuration.md", "`expert_parallel_sources = 0` (integer; not built yet",
       planned({"--parallelism.expert_parallel_sources=1"}), 2, kNotBuilt},
      {"docs/configuration.md", "`compiled = \"auto\"` (not built yet",
       planned({"--model.compiled=off"}), 2, kNotBuilt},
      {"docs/configuration.md", "`modules_to_save = []` (list of strings; not built yet",
       planned({"--lora.modules_to_save=[\"lm_head\"]"}), 2, kNotBuilt},
      {"docs/configuration.md", "`master_weights = \"auto\"` (not built yet",
       planned({"--training.master_weights=float32"}), 2, kNotBuilt},
      {"docs/configuration.md",
       "`deterministic = \"auto\"` (string or true or false; not built yet",
       planned({"--training.deterministic=true"}), 2, kNotBuilt},
      {"docs/configuration.md", "`float32_matmul = \"highest\"` (not built yet",
       planned({"--training.float32_matmul=high"}), 2, kNotBuilt},
      {"docs/configuration.md", "`state = \"float32\"` (not built yet",
       planned({"--optimizer.state=int8"}), 2, kNotBuilt},
      {"docs/failures.md", "what is not built yet", planned({"--model.rewrites=false"}), 2,
       kNotBuilt},
      {"docs/from-torchtitan.md", "*not built yet* is refused, never ignored",
       planned({"--parallelism.context_parallel_degree=2"}), 2, kNotBuilt},
      {"docs/from-torchtitan.md", "`cp` is not built yet: its keys are refused",
       planned({"--parallelism.context_parallel_degree=2"}), 2, kNotBuilt},
      {"docs/from-torchtitan.md", "those of OLMo 2 and OLMoE are not divided yet",
       trained({"--model.config=DIR/olmo2.json", "--parallelism.tensor_parallel_degree=2"}), 2,
       kUndivided},
      {"docs/parallelism.md", "queries and keys of all heads together are not divided",
       trained({"--model.config=DIR/olmo2.json", "--parallelism.tensor_parallel_degree=2"}), 2,
       kUndivided},
      {"docs/configuration.md", "Not yet with tensor slices, other shards or reductions",
       planned({"--model.config=" + kReference + "models_extra/mixtral_balance/config.json",
                "--parallelism.data_parallel_degree=2", "--parallelism.expert_parallel_degree=2",
                "--parallelism.reduction=fast"}),
       2, "is not built yet"},
      {"docs/configuration.md", "Not yet for OLMo 2, OLMoE, adapters and graphs",
       trained({"--model.config=DIR/olmo2.json", "--parallelism.tensor_parallel_degree=2"}), 2,
       kUndivided},
      {"docs/parallelism.md", "as is one with adapters or of an exported graph",
       trained({"--model.config=", "--model.path=" + kReference + "models/llama_untied",
                "--lora.rank=2", "--parallelism.tensor_parallel_degree=2"}),
       2, "layers with adapters are not divided among ranks yet"},
      {"docs/from-nemo-automodel.md", "*not built yet* is refused, never ignored",
       planned({"--distributed.cp_size=2"}), 2, kPeersKey},
      {"docs/from-nemo-automodel.md", "context parallelism is not built yet",
       planned({"--distributed.cp_size=2"}), 2, kPeersKey},
      {"docs/from-neuronx.md", "*not built yet* is refused, never ignored",
       planned({"--model.rewrites=false"}), 2, kNotBuilt},
      {"docs/from-neuronx.md", "those of OLMo 2 and OLMoE are not divided yet",
       trained({"--model.config=DIR/olmo2.json", "--parallelism.tensor_parallel_degree=2"}), 2,
       kUndivided},
      // Statements that something works.
      {"docs/from-torchtitan.md", "`tensor_parallel_degree`; rows are divided with it",
       planned({"--parallelism.tensor_parallel_degree=2"})},
      {"docs/from-torchtitan.md", "`sequence_parallel` is on with it, and may be off",
       planned(
           {"--parallelism.tensor_parallel_degree=2", "--parallelism.sequence_parallel=false"})},
      {"docs/from-torchtitan.md", "refused, with what does it here: nothing for the first",
       planned({"--parallelism.enable_async_tensor_parallel=true"}), 2, "torchtitan"},
      {"docs/from-torchtitan.md", "the vocabulary is always divided",
       planned({"--parallelism.disable_loss_parallel=true"}), 2, "vocabulary is divided"},
      {"docs/from-nemo-automodel.md", "keys `tensor_parallel_degree`, `sequence_parallel`",
       planned({"--distributed.tp_size=2"}), 2, "parallelism.tensor_parallel_degree"},
      {"docs/from-neuronx.md", "keys `tensor_parallel_degree`, `sequence_parallel` (on with it)",
       planned({"--parallelism.tensor_parallel_size=2"}), 2, "parallelism.tensor_parallel_degree"},
      {"docs/from-neuronx.md", "other numbers are refused with the nearest",
       planned({"--parallelism.tensor_parallel_degree=4"}), 2, "does not divide 2 key-value heads"},
      {"docs/from-torchtitan.md",
       "Replicas: `PipelineOptions::data_parallel`, key `data_parallel_degree`",
       planned({"--parallelism.data_parallel_degree=2"})},
      {"docs/from-neuronx.md", "of `sluice train`: `parallelism.zero1`",
       planned({"--parallelism.data_parallel_degree=2", "--parallelism.zero1=true"})},
      {"docs/from-nemo-automodel.md", "with `data.pad = \"longest\"`",
       planned({"--data.pad=longest"})},
      // Statements that something is rejected.
      {"README.md", "no float8", planned({"--model.dtype=float8_e4m3fn"}), 2, "model.dtype"},
      {"README.md", "any other architecture is refused by its name",
       planned({"--model.config=DIR/whole.json"}), 3, "'a_whole' is not known"},
      {"README.md",
       "WordPiece and Unigram are refused",
       {"data", "tokenize", "--tokenizer=DIR/wordpiece.json", "DIR/text.txt"},
       3,
       "'WordPiece'"},
      {"README.md",
       "WordPiece and Unigram are refused",
       {"data", "tokenize", "--tokenizer=DIR/unigram.json", "DIR/text.txt"},
       3,
       "'Unigram'"},
      {"docs/limits.md", "DoRA, `modules_to_save` and adapters of experts are refused",
       of_base({"--model.adapter=DIR/dora"}), 3, "use_dora"},
      {"docs/compatibility.md",
       "weights tied across stages | yes | no (manual stages) | refused | refused",
       of_model("models/llama_tied", {"--parallelism.pipeline_parallel_degree=4"})},
      {"docs/any-model.md", "elements of the outermost lists", of_graph({})},
      {"docs/any-model.md", "a graph is cut between its nodes, not within them; refused",
       of_graph({"--parallelism.context_parallel_degree=2"}), 2, kNotBuilt},
      {"docs/any-model.md", "LoRA adapters (`lora.rank`, `model.adapter`): refused",
       of_graph({"--lora.rank=4"}), 2, "lora.rank cannot be used with model.graph"},
      {"docs/any-model.md", "ZeRO-3: refused",
       of_graph({"--parallelism.zero3=true", "--parallelism.data_parallel_degree=2"}), 2,
       "write zero1 = true"},
      {"docs/any-model.md", "`zero1` and replicas work",
       of_graph({"--parallelism.zero1=true", "--parallelism.data_parallel_degree=2"})},
      {"docs/any-model.md", "a graph has one attention for all; refused",
       of_graph({"--data.pack=true"}), 2, "data.pack cannot be used with model.graph"},
      {"docs/any-model.md", "another `model.dtype` than the archive's",
       of_graph({"--model.dtype=bfloat16"}), 2, "exported in float32"},
      {"docs/any-model.md", "a name there is refused",
       of_graph({"--parallelism.pipeline_parallel_cuts=['blocks.9']"}), 2,
       "unknown name 'blocks.9'"},
      {"docs/any-model.md",
       "`split --model FILE.pt2` computes cuts alone",
       {"split", "--model=" SLUICE_TEST_DATA "/command/data/images.pt2", "--pp=2"}},
      {"docs/from-nemo-automodel.md", "the same under `automodel`; convention `sluice` ties them",
       of_model("models/llama_tied", {"--parallelism.partition_convention=automodel"}), 2, "tied"},
      {"docs/configuration.md", "`zero3` and `reduce_grad_per_microbatch` exclude each other",
       planned({"--parallelism.data_parallel_degree=2", "--parallelism.zero3=true",
                "--parallelism.reduce_grad_per_microbatch=true"}),
       2, "exclude each other"},
      {"docs/configuration.md", "contradict each other only where the same place gives both",
       planned({"--training.local_batch_size=4", "--training.global_batch_size=8"}), 2,
       "exclude each other"},
      {"docs/configuration.md", "the one of the place that wins takes the place of the other",
       planned({"--training.global_batch_size=8"})},
      {"docs/data.md",
       "refused (exit 3), with the line that converts them",
       {"data", "inspect", "DIR/text.gz"},
       3,
       "is not text, by its ending"},
      {"docs/from-nemo-automodel.md", "GPT-2, GPT-NeoX and tied heads under convention `sluice`",
       of_model("models_extra/gpt_neox", {"--parallelism.partition_convention=automodel"}), 2,
       "does not support the structure"},
      {"docs/from-nemo-automodel.md", "GPT-2, GPT-NeoX and tied heads under convention `sluice`",
       of_model("models_extra/gpt_neox", {})},
      {"docs/from-neuronx.md", "no schedule named: Interleaved1F1B. 1F1B named: refused",
       planned({"--parallelism.pipeline_parallel_stages_per_rank=2",
                "--parallelism.pipeline_parallel_schedule=1F1B"}),
       2, "exactly 1 stage"},
      {"docs/from-torchtitan.md", "refused at its first other key, with what does it here",
       planned({"--training.batch_size=4"}), 2, "here is training.local_batch_size"},
      {"docs/lora.md", "`training.trainable` beside an adapter is refused (exit 2)",
       of_base({"--lora.rank=4", "--training.trainable=['*norm*']"}), 2, "training.trainable"},
      {"docs/lora.md", "`sluice plan` takes it", planned({"--lora.rank=4"})},
      {"docs/models.md",
       "`text_config` has the `model_type` of a family",
       {"split", "--model=DIR/whole.json", "--pp=2"}},
      {"docs/models.md",
       "it refuses `qwen2_vl_text`",
       {"split", "--model=DIR/whole_qwen.json", "--pp=2"},
       3,
       "text_config.model_type"},
      {"docs/partition.md",
       "refused: 34 effective layers on 4 ranks",
       {"split", "--convention=torchtitan", "--pp=4", "--layers=32", "--schedule=1F1B",
        "--layers-per-stage=8"},
       2,
       "34 effective layers"},
      {"docs/partition.md",
       "refused: one stage a rank left",
       {"split", "--convention=automodel", "--pp=4", "--layers=26", "--layers-per-stage=4",
        "--schedule=Interleaved1F1B", "--round=down"},
       2,
       "at least 2 stages"},
      {"docs/partition.md",
       "refused: two stages a rank",
       {"split", "--convention=automodel", "--pp=4", "--layers=32", "--layers-per-stage=4",
        "--schedule=1F1B"},
       2,
       "exactly 1 stage"},
      {"docs/schedules.md",
       "An unknown name is refused (exit 2) with the nearest one.",
       {"schedule", "--name=1F2B", "--pp=2", "--microbatches=4"},
       2,
       "did you mean '1F1B'?"},
      {"docs/tokenizer.md",
       "the models WordPiece, WordLevel and Unigram",
       {"data", "tokenize", "--tokenizer=DIR/wordpiece.json", "DIR/text.txt"},
       3,
       "'WordPiece'"},
      {"docs/training.md",
       "`training.mixed_precision = \"bfloat16\"` on a float16 model is refused (exit 2)",
       planned({"--model.dtype=float16", "--training.mixed_precision=bfloat16"}), 2,
       "exclude each other"},
  };
  return table;
}

std::string page_text(const std::string& page) { return test::read_file(kSource + "/" + page); }

// Returns each paragraph, list item, table row and code line as one unwrapped line.
std::vector<std::string> paragraphs(const std::string& page) {
  std::vector<std::string> found(1);
  std::istringstream text(page_text(page));
  bool is_code = false;
  for (std::string line; std::getline(text, line);) {
    const std::size_t start = line.find_first_not_of(' ');
    const std::string words = start == std::string::npos ? "" : line.substr(start);
    const bool is_fence = words.starts_with("```");
    const bool starts = words.empty() || is_code || is_fence || words.starts_with("|") ||
                        words.starts_with("- ") || words.starts_with("#");
    if (is_fence) is_code = !is_code;
    if (starts || found.back().empty())
      found.push_back(words);
    else
      found.back() += " " + words;
  }
  return found;
}

class PagesTest : public ::testing::Test {
 protected:
  PagesTest() {
    test::write_file(folder_ / "run.toml",
                     "[model]\nconfig = \"" + kReference +
                         "models/llama_untied/config.json\"\n[data]\nfiles = [\"text.txt\"]\n"
                         "[training]\nlocal_batch_size = 4\nseq_len = 16\n"
                         "[parallelism]\npipeline_parallel_degree = 2\n");
    test::write_file(folder_ / "text.txt", "a text\n");
    test::write_file(folder_ / "text.gz", "a text\n");
    test::write_file(folder_ / "wordpiece.json",
                     R"({"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a"}})");
    test::write_file(folder_ / "unigram.json",
                     R"({"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0}})");
    auto text =
        nlohmann::json::parse(test::read_file(kReference + "models/llama_untied/config.json"));
    test::write_file(folder_ / "olmo2.json",
                     R"({"model_type": "olmo2", "vocab_size": 256, "hidden_size": 32,
                         "intermediate_size": 40, "num_hidden_layers": 4,
                         "num_attention_heads": 4})");
    nlohmann::json whole = {{"model_type", "a_whole"}, {"text_config", text}};
    test::write_file(folder_ / "whole.json", whole.dump());
    whole["text_config"]["model_type"] = "qwen2_vl_text";
    test::write_file(folder_ / "whole_qwen.json", whole.dump());
    std::filesystem::copy(kReference + "adapters/plain", folder_ / "dora");
    auto adapter = nlohmann::json::parse(test::read_file(folder_ / "dora/adapter_config.json"));
    adapter["use_dora"] = true;
    test::write_file(folder_ / "dora/adapter_config.json", adapter.dump());
  }

  const test::TempDirectory folder_;
};

TEST_F(PagesTest, SayWhatTheProgramDoes) {
  for (const Claim& claim : claims()) {
    const std::vector<std::string> said = paragraphs(claim.page);
    EXPECT_TRUE(std::any_of(said.begin(), said.end(),
                            [&](const std::string& paragraph) {
                              return paragraph.find(claim.sentence) != std::string::npos;
                            }))
        << claim.page << " has no longer: " << claim.sentence;
    std::vector<std::string> arguments = claim.arguments;
    for (std::string& argument : arguments)
      argument = replace_all(argument, "DIR/", folder_.str() + "/");
    const ProgramResult result = run_sluice(arguments);
    EXPECT_EQ(result.exit_code, claim.exit_code) << claim.page << ": " << claim.sentence << "\n"
                                                 << result.err;
    EXPECT_NE(result.err.find(claim.says), std::string::npos)
        << claim.page << ": " << claim.sentence << "\n"
        << result.err;
  }
}

// True for lines with "not built" or "not yet" that make no testable statement.
bool is_no_claim(const std::string& line) {
  return line.starts_with("## Not built yet") ||
         line.find("have been sent but not yet received") != std::string::npos ||
         // PeerKeysTest tests the list of other libraries' keys.
         (line.starts_with("- `") && line.ends_with("`: not built yet"));
}

TEST_F(PagesTest, EveryNotBuiltStatementOfThePagesIsTested) {
  std::vector<std::string> pages = {"README.md", "SECURITY.md", "CONTRIBUTING.md"};
  for (const auto& entry : std::filesystem::directory_iterator(kSource + "/docs")) {
    if (entry.path().extension() == ".md")
      pages.push_back("docs/" + entry.path().filename().string());
  }
  for (const std::string& page : pages) {
    for (const std::string& line : paragraphs(page)) {
      const std::string lower = to_lower(line);
      const bool says_so = lower.find("not built") != std::string::npos ||
                           lower.find("not yet") != std::string::npos;
      if (!says_so || is_no_claim(line)) continue;
      const bool is_tried = std::any_of(claims().begin(), claims().end(), [&](const Claim& claim) {
        return claim.page == page && line.find(claim.sentence) != std::string::npos;
      });
      EXPECT_TRUE(is_tried) << page << ": no command tries: " << line;
    }
  }
}

// Returns the names in backquotes after the last colon of a list item.
std::vector<std::string> names_at_end(const std::string& item) {
  std::vector<std::string> names;
  const std::vector<std::string> pieces = split(item.substr(item.rfind(": ")), '`');
  for (std::size_t i = 1; i < pieces.size(); i += 2) names.push_back(pieces[i]);
  return names;
}

TEST_F(PagesTest, EveryItemOfWhatSharedLayersAreCombinedWithNamesItsTest) {
  std::string sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SLUICE_TEST_DATA)) {
    if (entry.path().extension() == ".cpp") sources += test::read_file(entry.path());
  }
  std::set<std::string> named;
  bool is_section = false;
  for (const std::string& item : paragraphs("docs/parallelism.md")) {
    if (item.starts_with("## ")) is_section = item == "## What it may be combined with";
    if (!is_section || !item.starts_with("- ")) continue;
    ASSERT_NE(item.find(": `"), std::string::npos) << item;
    const std::vector<std::string> names = names_at_end(item);
    EXPECT_FALSE(names.empty()) << item;
    for (const std::string& name : names) {
      named.insert(name);
      const bool is_test = sources.find("SharedLayersTest, " + name + ")") != std::string::npos;
      const bool is_suite = sources.find("(" + name + ", ") != std::string::npos;
      EXPECT_TRUE(is_test || is_suite) << "no test or suite of this name: " << item;
    }
  }
  EXPECT_GT(named.size(), 15U);
  const std::string tests = test::read_file(SLUICE_TEST_DATA "/cli/shared_layers_test.cpp");
  const std::string before = "SharedLayersTest, ";
  for (std::size_t at = 0; (at = tests.find(before, at)) != std::string::npos;) {
    at += before.size();
    const std::string name = tests.substr(at, tests.find(')', at) - at);
    EXPECT_TRUE(named.contains(name)) << "docs/parallelism.md has no item for " << name;
  }
}

TEST_F(PagesTest, ReadmePrintsTheProgramThatTheExamplesRun) {
  const std::string program = test::read_file(kSource + "/examples/use_installed/ten_lines.cpp");
  EXPECT_NE(page_text("README.md").find("```cpp\n" + program + "```\n"), std::string::npos);
}

TEST_F(PagesTest, ReadmeShowsThePictureThatItsCommandDraws) {
  const std::string command =
      "schedule --name ZBVZeroBubble --pp 4 --microbatches 8 --draw step.svg";
  const std::string page = page_text("README.md");
  const std::string picture = "tests/golden/pictures/ZBVZeroBubble.svg";
  EXPECT_NE(page.find("](" + picture + ")"), std::string::npos);
  EXPECT_NE(page.find("`sluice " + command + "`"), std::string::npos);
  const std::vector<std::string> shared = {"--pp=4", "--microbatches=8", "--simulate"};
  const auto drawn = [&](const std::string& name) {
    std::vector<std::string> arguments = {"schedule", "--name=" + name,
                                          "--draw=" + folder_.str() + "/step.svg"};
    arguments.insert(arguments.end(), shared.begin(), shared.end());
    return run_sluice(arguments).out;
  };
  EXPECT_NE(drawn("1F1B").find("bubble 27.3%"), std::string::npos);
  EXPECT_NE(page.find("`1F1B` leaves 27.3 %"), std::string::npos);
  EXPECT_NE(drawn("ZBVZeroBubble").find("bubble 5.9%"), std::string::npos);
  EXPECT_NE(page.find("grey is idle: 5.9 % of this step"), std::string::npos);
  EXPECT_EQ(test::read_file(folder_ / "step.svg"), test::read_file(kSource + "/" + picture));
}

}  // namespace
}  // namespace sluice::testing
