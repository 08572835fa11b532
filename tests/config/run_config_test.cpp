#include "config/run_config.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sluice/error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using Environment = std::map<std::string, std::string>;

class RunConfigTest : public testing::Test {
 protected:
  RunConfig load(const std::string& text, const Overrides& overrides = {},
                 const Environment& environment = {}) {
    test::write_file(folder_ / "run.toml", text);
    return load_run_config(folder_ / "run.toml", overrides, environment);
  }
  test::TempDirectory folder_;
};

TEST_F(RunConfigTest, TheCommandLineWinsOverTheEnvironmentOverTheFileOverTheDefault) {
  const std::string file = "[training]\nsteps = 1\nseed = 1\nseq_len = 16\n";
  const RunConfig config = load(file, {{"training.steps", "3"}},
                                {{"SLUICE_TRAINING_STEPS", "2"}, {"SLUICE_TRAINING_SEED", "2"}});
  EXPECT_EQ(config.training.steps, 3);
  EXPECT_EQ(config.training.seed, 2);
  EXPECT_EQ(config.training.seq_len, 16);
  EXPECT_EQ(config.training.local_batch_size, 8);
  EXPECT_EQ(config.origins.at("training.steps"), "--training.steps");
  EXPECT_EQ(config.origins.at("training.seed"), "SLUICE_TRAINING_SEED");
  EXPECT_EQ(config.origins.at("training.seq_len"), (folder_ / "run.toml") + ":4:1");
  EXPECT_EQ(config.origins.at("training.local_batch_size"), "default");
}

TEST_F(RunConfigTest, TheLastOfTwoOverridesWins) {
  EXPECT_EQ(load("", {{"training.steps", "3"}, {"training.steps", "4"}}).training.steps, 4);
}

TEST_F(RunConfigTest, EveryKeyHasAnOrigin) {
  const RunConfig config = load_run_config("", {}, {});
  for (const std::string& key : config_keys()) EXPECT_EQ(config.origins.at(key), "default") << key;
  EXPECT_EQ(config.origins.size(), config_keys().size());
}

TEST_F(RunConfigTest, ReadsWordsInAnyCaseAndShortNamesOfTypes) {
  for (const char* name : {"adamw", "adamW", "ADAMW"})
    EXPECT_EQ(load("[optimizer]\nname = \"" + std::string(name) + "\"\n").optimizer.kind,
              OptimizerKind::kAdamW);
  for (const char* type : {"bf16", "BF16", "BFloat16"}) {
    const RunConfig config = load("", {{"training.mixed_precision", type}, {"model.dtype", type}});
    EXPECT_EQ(config.training.mixed_precision, MixedPrecision::kBfloat16);
    EXPECT_EQ(config.model.dtype, ParameterType::kBfloat16);
  }
  for (const char* type : {"fp16", "half"})
    EXPECT_EQ(load("", {{"model.dtype", type}}).model.dtype, ParameterType::kFloat16);
  EXPECT_EQ(load("", {{"model.dtype", "fp32"}}).model.dtype, ParameterType::kFloat32);
  EXPECT_EQ(load("", {{"optimizer.name", "sgd"}}).optimizer.kind, OptimizerKind::kSgd);
}

TEST_F(RunConfigTest, ReadsEveryTypeOfValue) {
  const RunConfig config = load(R"([optimizer]
lr = 1
betas = [0, 0.5]
no_decay = ["*.bias", '*norm*']
[data]
shuffle = false
[parallelism]
pipeline_parallel_degree = 0x2
module_fqns_per_model_part = [["a", "b"], ["c"]]
stage_to_rank = [1, 0]
scale_grads = 2.5
)");
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.0, 0.5}));
  EXPECT_EQ(config.optimizer.no_decay, (std::vector<std::string>{"*.bias", "*norm*"}));
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.parallelism.pipeline.num_ranks, 2);
  EXPECT_EQ(config.parallelism.pipeline.partition.modules,
            (std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}}));
  EXPECT_EQ(config.parallelism.pipeline.partition.placement, std::nullopt);
  EXPECT_EQ(config.parallelism.pipeline.partition.stage_to_rank, (std::vector<int>{1, 0}));
  EXPECT_EQ(config.parallelism.scale_grads, GradientScale(GradientScale::kDivisor, 2.5));
}

TEST_F(RunConfigTest, KeysOfTwoTypesTakeBoth) {
  const RunConfig words = load("[parallelism]\nstage_to_rank = \"v\"\nscale_grads = \"none\"\n");
  EXPECT_EQ(words.parallelism.pipeline.partition.placement, Placement::kV);
  EXPECT_TRUE(words.parallelism.pipeline.partition.stage_to_rank.empty());
  EXPECT_EQ(words.parallelism.scale_grads, GradientScale::kSumOfMeans);
  EXPECT_EQ(load("[parallelism]\nscale_grads = 4\n").parallelism.scale_grads.divisor, 4.0);
  using Words = std::vector<std::string>;
  EXPECT_EQ(load("[data]\ntrain_on = \"last\"\n").data.train_on, Words{"last"});
  EXPECT_EQ(load("[data]\ntrain_on = [\"assistant\"]\n").data.train_on, Words{"assistant"});
  EXPECT_EQ(load("[data]\nfields = { prompt = \"q\", text = \"a b\" }\n").data.fields,
            (std::map<std::string, std::string>{{"prompt", "q"}, {"text", "a b"}}));
  EXPECT_EQ(load("[data.fields]\nprompt = \"q\"\n").data.fields.at("prompt"), "q");
  const RunConfig flag = load("[parallelism]\nscale_grads = true\n");
  EXPECT_EQ(flag.parallelism.scale_grads, GradientScale::kMicrobatches);
  EXPECT_NE(show_config(flag).find("parallelism.scale_grads = \"microbatches\" "),
            std::string::npos);
  EXPECT_EQ(load("[parallelism]\nscale_grads = 4\n", {{"parallelism.scale_grads", "false"}})
                .parallelism.scale_grads,
            GradientScale::kSumOfMeans);
  EXPECT_EQ(load("[checkpoint]\nresume = \"none\"\n").checkpoint.resume.kind, ResumeFrom::kNone);
  RunConfig resumed = words;
  resumed.checkpoint.resume = {ResumeFrom::kStep, 3};
  EXPECT_NE(show_config(resumed).find("checkpoint.resume = 3 "), std::string::npos);
  resumed.checkpoint.resume = {.kind = ResumeFrom::kPath, .path = "3rd"};
  EXPECT_NE(show_config(resumed).find("checkpoint.resume = \"3rd\" "), std::string::npos);
}

TEST_F(RunConfigTest, ARunIsResumedByAWordAStepOrAPath) {
  const auto resume = [&](const std::string& value) {
    return load("[checkpoint]\nresume = " + value + "\n").checkpoint.resume;
  };
  EXPECT_EQ(resume("\"auto\""), ResumeFrom());
  const ResumeFrom twelve = {ResumeFrom::kStep, 12};
  EXPECT_EQ(resume("12"), twelve);
  EXPECT_EQ(resume("\"12\""), twelve);
  EXPECT_EQ(resume("\"/ck/step-00000012\"").kind, ResumeFrom::kPath);
  EXPECT_EQ(resume("\"/ck/step-00000012\"").path, "/ck/step-00000012");
  const std::string relative = resume("\"ck/step-00000012\"").path;  // relative to the file
  EXPECT_NE(relative, "ck/step-00000012");
  EXPECT_TRUE(relative.ends_with("/ck/step-00000012")) << relative;
  const RunConfig rest = load(
      "[checkpoint]\ninterval = 10\nkeep_latest_k = 1\nkeep_every = 100\nasync = false\n"
      "commit = \"marker\"\non_save_error = \"continue\"\nallow = [\"data\", \"model\"]\n");
  EXPECT_EQ(rest.checkpoint.interval.steps, 10);
  EXPECT_EQ(rest.checkpoint.keep_latest_k, 1);
  EXPECT_EQ(rest.checkpoint.keep_every, 100);
  EXPECT_FALSE(rest.checkpoint.async);
  EXPECT_EQ(rest.checkpoint.commit, Commit::kMarker);
  EXPECT_EQ(rest.checkpoint.on_save_error, OnSaveError::kContinue);
  EXPECT_EQ(rest.checkpoint.allow, (std::vector<std::string>{"data", "model"}));
}

TEST_F(RunConfigTest, ReadsOverridesAsTomlAndBareWordsAsStrings) {
  const RunConfig config = load("", {{"optimizer.name", "SGD"},
                                     {"lr_scheduler.decay", "\"linear\""},
                                     {"optimizer.betas", "[0.1, 0.2]"},
                                     {"optimizer.lr", "1e-2"},
                                     {"data.shuffle", "false"},
                                     {"parallelism.pipeline_parallel_schedule_csv", ""},
                                     {"optimizer.no_decay", "[\"x\"]"}});
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(config.lr_scheduler.decay, Decay::kLinear);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.1, 0.2}));
  EXPECT_EQ(config.optimizer.lr, 1e-2);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.optimizer.no_decay, std::vector<std::string>{"x"});
}

TEST_F(RunConfigTest, TakesOverridesOutOfTheArguments) {
  std::vector<std::string> arguments = {"plan",
                                        "--training.steps",
                                        "10",
                                        "run.toml",
                                        "--json",
                                        "--optimizer.lr=-1",
                                        "--data.shuffle",
                                        "false",
                                        "--model.path=",
                                        "--",
                                        "--a.b=1"};
  const Overrides overrides = take_overrides(arguments);
  EXPECT_EQ(overrides, (Overrides{{"training.steps", "10"},
                                  {"optimizer.lr", "-1"},
                                  {"data.shuffle", "false"},
                                  {"model.path", ""}}));
  EXPECT_EQ(arguments, (std::vector<std::string>{"plan", "run.toml", "--json", "--", "--a.b=1"}));
}

TEST_F(RunConfigTest, RefusesAnOverrideWithoutValue) {
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"--data.shuffle"}, {"--data.shuffle", "--json"}}) {
    try {
      take_overrides(arguments);
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "no value after --data.shuffle; command line; "
                   "write --data.shuffle VALUE or --data.shuffle=VALUE");
    }
  }
}

TEST_F(RunConfigTest, RelativePathsAreFromTheFileOrTheWorkingFolder) {
  const std::string text =
      "[model]\npath = \"m\"\n[data]\nfiles = [\"c/*.txt\", \"/abs/x\"]\n"
      "[metrics]\nfolder = \"../out\"\n";
  const std::string file = folder_ / "sub/run.toml";
  test::write_file(file, text);
  const RunConfig config = load_run_config(file, {{"checkpoint.folder", "here"}}, {});
  EXPECT_EQ(config.model.path, (folder_ / "sub/m"));
  EXPECT_EQ(config.data.files, (std::vector<std::string>{folder_ / "sub/c/*.txt", "/abs/x"}));
  EXPECT_EQ(config.metrics.folder, (folder_ / "out"));
  EXPECT_EQ(config.checkpoint.folder, "here");
  EXPECT_EQ(load_run_config("", {}, {}).metrics.folder, "outputs");
  EXPECT_EQ(load("", {}, {{"SLUICE_MODEL_PATH", "m"}}).model.path, "m");
}

TEST_F(RunConfigTest, ExpandsHomeAndVariables) {
  setenv("SLUICE_TEST_PLACE", "/place", 1);
  const std::string home = getenv("HOME") ? getenv("HOME") : "";
  setenv("HOME", "/home/of/test", 1);
  const RunConfig config = load(
      "[model]\npath = \"~/m\"\n[data]\nfiles = [\"${SLUICE_TEST_PLACE}/a${SLUICE_TEST_PLACE}\", "
      "\"a~b\"]\n");
  setenv("HOME", home.c_str(), 1);
  unsetenv("SLUICE_TEST_PLACE");
  EXPECT_EQ(config.model.path, "/home/of/test/m");
  EXPECT_EQ(config.data.files, (std::vector<std::string>{"/place/a/place", folder_ / "a~b"}));
}

TEST_F(RunConfigTest, ShowsEveryKeyWithItsOrigin) {
  const RunConfig config = load("[training]\nsteps = 7\n", {{"optimizer.name", "SGD"}});
  const std::string text = show_config(config);
  EXPECT_NE(text.find("training.steps = 7 "), std::string::npos) << text;
  EXPECT_NE(text.find("# " + (folder_ / "run.toml") + ":2:1\n"), std::string::npos);
  EXPECT_NE(text.find("# --optimizer.name\n"), std::string::npos);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            config_keys().size());
  const auto json = nlohmann::json::parse(show_config_json(config));
  EXPECT_EQ(json.size(), config_keys().size());
  EXPECT_EQ(json["training.steps"]["value"], 7);
  EXPECT_EQ(json["optimizer.name"]["origin"], "--optimizer.name");
}

TEST_F(RunConfigTest, ShowsNoDefaultOfAKeyThatAnotherKeyReplaces) {
  const std::string text =
      show_config(load("[training]\nepochs = 2\nglobal_batch_size = 16\n"
                       "[lr_scheduler]\nwarmup_ratio = 0.1\n"));
  for (const char* key : {"training.steps", "training.local_batch_size", "warmup_steps"})
    EXPECT_EQ(text.find(key), std::string::npos) << key;
}

TEST_F(RunConfigTest, ShowsOnlyWhatDiffersFromTheDefaults) {
  const RunConfig config =
      load("[training]\nsteps = 7\nseed = 0\n", {{"metrics.log_level", "debug"}});
  EXPECT_EQ(show_config_changes(config),
            "training.steps = 7           # " + (folder_ / "run.toml") +
                ":2:1\n"
                "metrics.log_level = \"debug\"  # --metrics.log_level\n");
  EXPECT_EQ(show_config_changes(load("")), "");
}

TEST_F(RunConfigTest, EveryLevelOfTheLogIsAWord) {
  EXPECT_EQ(load("").metrics.log_level, LogLevel::kInfo);
  for (const std::string level : {"debug", "info", "warning", "error"}) {
    EXPECT_EQ(load("", {{"metrics.log_level", level}}).metrics.log_level, log_level(level));
  }
}

TEST_F(RunConfigTest, WhatItShowsReadsBackTheSame) {
  const std::string text =
      "[model]\npath = \"a\\\"b\\u007f\\u00e9\"\n[optimizer]\nlr = 0.1\n"
      "[parallelism]\nstage_to_rank = [0, 1, 2, 3]\nmodule_fqns_per_model_part = [[\"x\"], []]\n";
  const RunConfig first = load(text);
  Overrides shown;
  std::string line;
  for (const char c : show_config(first)) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const std::size_t equals = line.find(" = ");
    const std::size_t end = line.find_last_not_of(' ', line.rfind("# ") - 1);
    shown.emplace_back(line.substr(0, equals), line.substr(equals + 3, end - equals - 2));
    line.clear();
  }
  const RunConfig second = load_run_config("", shown, {});
  EXPECT_EQ(second.model.path, first.model.path);
  EXPECT_EQ(second.optimizer.lr, first.optimizer.lr);
  EXPECT_EQ(second.parallelism.pipeline.partition.stage_to_rank,
            first.parallelism.pipeline.partition.stage_to_rank);
  EXPECT_EQ(second.parallelism.pipeline.partition.modules,
            first.parallelism.pipeline.partition.modules);
}

// The page breaks long items into several lines.
TEST_F(RunConfigTest, TheDocumentedReferenceIsTheGeneratedOne) {
  std::ifstream stream(std::string(SLUICE_TEST_DATA) + "/../docs/configuration.md");
  const std::string page((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_NE(replace_all(page, "\n  ", " ").find(config_reference()), std::string::npos)
      << "write the output of `sluice config reference` into docs/configuration.md, and run "
         "tools/wrap_pages.py on it";
  EXPECT_EQ(nlohmann::json::parse(config_reference_json()).size(), config_keys().size());
}

TEST_F(RunConfigTest, TheWeightsOfTheEndsHaveTheDefaultOfTheConvention) {
  const auto shown = [](const Overrides& overrides) {
    return nlohmann::json::parse(show_config_json(load_run_config("", overrides, {})))
        .at("parallelism.first_stage_weight")
        .dump();
  };
  EXPECT_EQ(shown({}), R"({"origin":"default","value":0})");
  const std::pair<std::string, std::string> titan = {"parallelism.partition_convention",
                                                     "torchtitan"};
  EXPECT_EQ(shown({titan}), R"({"origin":"default of torchtitan","value":1})");
  EXPECT_EQ(shown({titan, {"parallelism.first_stage_weight", "0"}}),
            R"({"origin":"--parallelism.first_stage_weight","value":0})");
  EXPECT_NE(show_config(load_run_config("", {titan}, {})).find("# default of torchtitan\n"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
