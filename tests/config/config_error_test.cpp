#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/error_list.h"
#include "base/text.h"
#include "config/run_config.h"
#include "sluice/error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

class ConfigErrorTest : public testing::Test {
 protected:
  // Returns the error message for a file with these lines. "F" replaces the file's name.
  std::string refusal(const std::string& text, const Overrides& overrides = {},
                      const std::map<std::string, std::string>& environment = {}) {
    const std::string file = folder_ / "run.toml";
    test::write_file(file, text);
    try {
      load_run_config(file, overrides, environment);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      std::string message = error.what();
      for (std::size_t at; (at = message.find(file)) != std::string::npos;) {
        message.replace(at, file.size(), "F");
      }
      return message;
    }
    return "accepted";
  }
  test::TempDirectory folder_;
};

TEST_F(ConfigErrorTest, NamesTheNearestKeyOfTheSection) {
  EXPECT_EQ(refusal("[training]\n  stpes = 3\n"),
            "unknown key 'training.stpes'; F:2:3; did you mean 'steps'?");
  EXPECT_EQ(refusal("[metrics]\nabcdefgh = 3\n"),
            "unknown key 'metrics.abcdefgh'; F:2:1; one of: folder, log_freq, log_level, "
            "parameter_norms, report, "
            "enable_tensorboard");
}

TEST_F(ConfigErrorTest, AnEmptyListOfLayersIsNoChoice) {
  EXPECT_EQ(refusal("[training]\nactivation_checkpoint = []\n"),
            "training.activation_checkpoint is an empty list; F:2:25; for example "
            "training.activation_checkpoint = \"none\"");
}

TEST_F(ConfigErrorTest, NamesTheSectionThatHasTheKey) {
  EXPECT_EQ(refusal("[training]\nlr = 1e-3\n"),
            "unknown key 'training.lr'; F:2:1; did you mean 'optimizer.lr'?");
  EXPECT_EQ(refusal("steps = 1\n"),
            "unknown key 'steps'; F:1:1; did you mean 'training.steps' or 'validation.steps'?");
}

TEST_F(ConfigErrorTest, NamesTheNearestSection) {
  EXPECT_EQ(refusal("[trainig]\nsteps = 3\n"),
            "unknown key 'trainig.steps'; F:2:1; did you mean 'training.steps'?");
  EXPECT_EQ(refusal("[modle]\n"), "unknown section 'modle'; F:1:2; did you mean 'model'?");
  EXPECT_EQ(refusal("[xyzzyplugh]\na = 1\n"),
            "unknown section 'xyzzyplugh'; F:2:1; one of: model, lora, data, training, "
            "optimizer, lr_scheduler, parallelism, validation, comm, checkpoint, metrics");
}

TEST_F(ConfigErrorTest, SaysWhichKeyDoesWhatAnotherLibrarysKeyDoes) {
  const std::string microbatches =
      "NeuronX's name, which here is training.local_batch_size / training.microbatch_size";
  EXPECT_EQ(refusal("[parallelism]\nnum_microbatches = 4\n"),
            "unknown key 'parallelism.num_microbatches'; F:2:1; " + microbatches);
  EXPECT_EQ(refusal("num_microbatches = 4\n"),
            "unknown key 'num_microbatches'; F:1:1; " + microbatches);
  EXPECT_EQ(refusal("[neuron]\nnum_microbatches = 4\n"),
            "unknown key 'neuron.num_microbatches'; F:2:1; " + microbatches);
  EXPECT_EQ(refusal("", {{"parallelism.num-microbatches", "4"}}),
            "unknown key 'parallelism.num-microbatches'; --parallelism.num-microbatches; " +
                microbatches);
  EXPECT_EQ(refusal("", {}, {{"SLUICE_PARALLELISM_NUM_MICROBATCHES", "4"}}),
            "unknown variable SLUICE_PARALLELISM_NUM_MICROBATCHES; environment; " + microbatches);
  EXPECT_EQ(refusal("", {}, {{"SLUICE_NUM_MICROBATCHES", "4"}}),
            "unknown variable SLUICE_NUM_MICROBATCHES; environment; " + microbatches);
}

TEST_F(ConfigErrorTest, AKeyOfAnotherLibraryIsThatOfItsSection) {
  EXPECT_EQ(refusal("[model]\nname = \"llama3\"\n"),
            "unknown key 'model.name'; F:2:1; torchtitan's name, which here is model.path "
            "or model.config");
  EXPECT_EQ(refusal("[job]\ndump_folder = \"out\"\n"),
            "unknown key 'job.dump_folder'; F:2:1; torchtitan's name, which here is "
            "checkpoint.folder and "
            "metrics.folder");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_JOB_DUMP_FOLDER", "out"}}),
            "unknown variable SLUICE_JOB_DUMP_FOLDER; environment; torchtitan's name, which here "
            "is checkpoint.folder and metrics.folder");
  EXPECT_EQ(refusal("[activation_checkpoint]\nmode = \"full\"\n"),
            "unknown key 'activation_checkpoint.mode'; F:2:1; torchtitan's name, which here is "
            "training.activation_checkpoint");
  EXPECT_EQ(refusal("[float8]\n"),
            "unknown section 'float8'; F:1:2; torchtitan's name, which here is nothing, on "
            "purpose");
  EXPECT_EQ(refusal("[distributed.pipeline]\npp_schedule = \"1f1b\"\n"),
            "unknown key 'distributed.pipeline'; F:1:14; NeMo AutoModel's name, which here is the "
            "keys of "
            "[parallelism]");
  EXPECT_EQ(refusal("", {{"distributed.pipeline.pp_schedule", "1f1b"}}),
            "unknown key 'distributed.pipeline.pp_schedule'; --distributed.pipeline.pp_schedule; "
            "NeMo AutoModel's name, which here is parallelism.pipeline_parallel_schedule");
  // The same key name in another library's section.
  EXPECT_EQ(refusal("[experimental]\npipeline_parallel_degree = 2\n"),
            "unknown key 'experimental.pipeline_parallel_degree'; F:2:1; did you mean "
            "'parallelism.pipeline_parallel_degree'?");
}

// These names are close to names of ours. Taking them for misspellings would change the layout.
TEST_F(ConfigErrorTest, AKeyOfAnotherLibraryIsNotTakenForAMisspeltOne) {
  const std::vector<std::array<std::string, 3>> answers = {
      {"parallelism", "expert_tensor_parallel_degree",
       "torchtitan's name, which here is nothing (experts are whole on every rank)"},
      {"parallelism", "sequence_parallel_degree",
       "torchtitan's name, which here is parallelism.tensor_parallel_degree with "
       "parallelism.sequence_parallel"},
      {"parallelism", "context_parallel_load_balancer",
       "torchtitan's name, which here is not built yet"}};
  for (const auto& [section, name, answer] : answers) {
    EXPECT_EQ(refusal("[" + section + "]\n" + name + " = 2\n"),
              "unknown key '" + section + "." + name + "'; F:2:1; " + answer);
    EXPECT_EQ(
        refusal("", {{section + "." + name, "2"}}),
        "unknown key '" + section + "." + name + "'; --" + section + "." + name + "; " + answer);
  }
}

TEST_F(ConfigErrorTest, KeysOfTracedModelsAreAnsweredWithWhatGraphsHave) {
  const std::string leaf =
      "NeuronX's name, which here is --leaf of the export tool (sluice graph tool)";
  const std::map<std::string, std::string> answers = {
      {"model.leaf_module_cls", leaf},
      {"model.autowrap_functions", leaf},
      {"model.autowrap_modules", leaf},
      {"model.autowrap_obj_methods", leaf},
      {"model.output_loss_value_spec", "NeuronX's name, which here is model.loss_output"},
      {"model.input_names",
       "NeuronX's name, which here is nothing (row fields are named like inputs of "
       "model.graph)"}};
  for (const auto& [key, answer] : answers)
    EXPECT_EQ(refusal("", {{key, "2"}}), "unknown key '" + key + "'; --" + key + "; " + answer);
}

TEST_F(ConfigErrorTest, AWordInASectionOfAnotherLibraryIsNotTakenForAKeyOfOurs) {
  EXPECT_EQ(refusal("[loss_fn]\nname = \"mse\"\n"),
            "unknown key 'loss_fn.name'; F:2:1; NeMo AutoModel's name, which here is "
            "model.loss_output of "
            "an exported graph");
  EXPECT_EQ(refusal("[dataset]\nname = \"wiki\"\n"),
            "unknown key 'dataset.name'; F:2:1; NeMo AutoModel's name, which here is data.files");
  EXPECT_EQ(refusal("[job]\nfolder = \"out\"\n"),
            "unknown key 'job.folder'; F:2:1; torchtitan's name, which here is nothing "
            "(the job is the "
            "file)");
}

TEST_F(ConfigErrorTest, AllWrongKeysComeInOneReport) {
  const std::string file = folder_ / "run.toml";
  test::write_file(file, R"([job]
description = "mine"
[training]
stpes = 3
learning_rate = 1e-3
seq_len = 0
[optimizer]
name = "adam"
[lora]
r = 8
[checkpoint]
async_mode = "async"
)");
  std::vector<std::string> messages;
  try {
    load_run_config(file, {{"parallelism.sequence_parallel_degree", "1"}}, {});
  } catch (const ErrorList& list) {
    for (const Error& error : list.errors())
      messages.push_back(replace_all(error.what(), file, "F"));
  }
  EXPECT_EQ(
      messages,
      (std::vector<std::string>{
          "unknown key 'job.description'; F:2:1; torchtitan's name, which here is nothing "
          "(the job is the "
          "file)",
          "unknown key 'training.stpes'; F:4:1; did you mean 'steps'?",
          "unknown key 'training.learning_rate'; F:5:1; Hugging Face's name, which here is "
          "optimizer.lr",
          "training.seq_len: the integer 0 is out of range; F:6:11; write a number 2 to 1073741824",
          "'adam' is not a value of optimizer.name; F:8:8; did you mean 'AdamW'?",
          "unknown key 'lora.r'; F:10:1; PEFT's name, which here is lora.rank",
          "unknown key 'checkpoint.async_mode'; F:12:1; torchtitan's name, which here is "
          "checkpoint.async",
          "unknown key 'parallelism.sequence_parallel_degree'; "
          "--parallelism.sequence_parallel_degree; torchtitan's name, which here is "
          "parallelism.tensor_parallel_degree with parallelism.sequence_parallel"}));
}

TEST_F(ConfigErrorTest, SaysHowToMendEverySyntaxError) {
  const std::string quotes = "text needs quotes: key = \"text\"";
  EXPECT_EQ(
      refusal("[training]\nsteps = 1\nsteps = 2\n"),
      "not TOML: key-value pair: cannot redefine existing integer 'steps'; F:3:9; keep one of "
      "the two");
  const std::vector<std::pair<std::string, std::string>> remedies = {
      {"[a]\n[a]\n", "keep one of the two"},
      {"[a\n", "write [section] alone on its line"},
      {"a = b\n", quotes},
      {"a = \n", "write one key = value a line; " + quotes},
      {"a b = 1\n", "write one key = value a line; " + quotes},
      {"a = \"b\n",
       "close the string with the quote it started with; \\ in \"...\" is written \\\\"},
      {"a = [1, 2\n", "separate values by commas and close the list: [1, 2]"},
      {"a = {b = 1\n", "write [section], then one key = value a line"},
      {"a = 01\n", "numbers are written 10, 0.1 or 3e-4"},
      {"a = tru\n", "write true or false; " + quotes},
      {"a = 2020-13-01\n", quotes},
      {"a = 1 # \xff\xfe\n", "save the file as UTF-8"}};
  for (const auto& [text, remedy] : remedies) {
    const std::string message = refusal(text);
    EXPECT_TRUE(message.starts_with("not TOML: ")) << message;
    EXPECT_TRUE(message.ends_with("; " + remedy)) << message;
  }
}

TEST_F(ConfigErrorTest, RefusesAValueInThePlaceOfASection) {
  EXPECT_EQ(refusal("\ntraining = 5\n"),
            "training: expected a section, found the integer 5; F:2:12; write [training]");
  EXPECT_EQ(refusal("[[training]]\nsteps = 5\n"),
            "training: expected a section, found a list; F:1:1; write [training]");
}

TEST_F(ConfigErrorTest, RefusesWrongTypesAtTheValue) {
  EXPECT_EQ(refusal("[training]\nsteps = \"10\"\n"),
            "training.steps: expected an integer, found the string \"10\"; F:2:9; "
            "for example training.steps = 100");
  EXPECT_EQ(refusal("[training]\nsteps = 10.0\n"),
            "training.steps: expected an integer, found the number 10; F:2:9; write 10");
  EXPECT_EQ(refusal("[training]\nsteps = 1e300\n"),
            "training.steps: expected an integer, found the number 1e+300; F:2:9; "
            "for example training.steps = 100");
  EXPECT_EQ(refusal("[data]\nshuffle = 1\n"),
            "data.shuffle: expected true or false, found the integer 1; F:2:11; "
            "for example data.shuffle = true");
  EXPECT_EQ(refusal("[model]\npath = 7\n"),
            "model.path: expected a string, found the integer 7; F:2:8; write \"7\" with quotes");
  EXPECT_EQ(refusal("[data]\nfiles = \"a.txt\"\n"),
            "data.files: expected a list of strings, found the string \"a.txt\"; F:2:9; "
            "for example data.files = [\"corpus/*.txt\"]");
  EXPECT_EQ(refusal("[data]\nfields = { text = 3 }\n"),
            "data.fields: expected a table of strings, found the integer 3 in the table; F:2:19; "
            "for example data.fields = { prompt = \"question\" }");
  EXPECT_EQ(refusal("[optimizer]\nlr = 1979-05-27\n"),
            "optimizer.lr: expected a number, found a date or time; F:2:6; "
            "for example optimizer.lr = 3e-04");
  EXPECT_EQ(refusal("[model]\npath.name = 7\n"),
            "model.path: expected a string, found a table; F:2:1; for example model.path = \"\"");
}

TEST_F(ConfigErrorTest, PointsAtTheElementOfAList) {
  EXPECT_EQ(refusal("[data]\nfiles = [\"a\",\n  3]\n"),
            "data.files: expected a list of strings, found the integer 3 in the list; F:3:3; "
            "write \"3\" with quotes");
  EXPECT_EQ(refusal("[optimizer]\nbetas = [0.9, 1.0]\n"),
            "optimizer.betas: the number 1 is out of range; F:2:15; "
            "write a number at least 0 and below 1");
  EXPECT_EQ(
      refusal("[parallelism]\nmodule_fqns_per_model_part = [[\"a\"], [\"b\", true]]\n"),
      "parallelism.module_fqns_per_model_part: expected a list of lists of strings, found true "
      "in the list; F:2:44; for example parallelism.module_fqns_per_model_part = []");
}

TEST_F(ConfigErrorTest, RefusesValuesOutOfRange) {
  EXPECT_EQ(refusal("[training]\nsteps = 0\n"),
            "training.steps: the integer 0 is out of range; F:2:9; "
            "write a number 1 to 1000000000000000");
  EXPECT_EQ(refusal("[optimizer]\nlr = -1\n"),
            "optimizer.lr: the integer -1 is out of range; F:2:6; write a number at least 0");
  EXPECT_EQ(refusal("[optimizer]\nlr = nan\n"),
            "optimizer.lr: the number nan is out of range; F:2:6; write a number at least 0");
  EXPECT_EQ(
      refusal("[optimizer]\nmax_norm = inf\n"),
      "optimizer.max_norm: the number inf is out of range; F:2:12; write a number at least 0");
  EXPECT_EQ(refusal("[lr_scheduler]\nmin_lr_factor = 1.5\n"),
            "lr_scheduler.min_lr_factor: the number 1.5 is out of range; F:2:17; "
            "write a number 0 to 1");
  EXPECT_EQ(refusal("[parallelism]\nscale_grads = 0\n"),
            "parallelism.scale_grads: the integer 0 is out of range; F:2:15; "
            "write a number 1e-30 to 1e+30");
  // Gradients or their divisor would exceed float32.
  EXPECT_EQ(refusal("", {{"parallelism.scale_grads", "1e-300"}}),
            "parallelism.scale_grads: the number 1e-300 is out of range; "
            "--parallelism.scale_grads; write a number 1e-30 to 1e+30");
  EXPECT_EQ(refusal("", {{"parallelism.scale_grads", "1e300"}}),
            "parallelism.scale_grads: the number 1e+300 is out of range; "
            "--parallelism.scale_grads; write a number 1e-30 to 1e+30");
}

TEST_F(ConfigErrorTest, NamesTheNearestWord) {
  EXPECT_EQ(refusal("[optimizer]\nname = \"AdamX\"\n"),
            "'AdamX' is not a value of optimizer.name; F:2:8; did you mean 'AdamW'?");
  EXPECT_EQ(refusal("[lr_scheduler]\ndecay = \"step\"\n"),
            "'step' is not a value of lr_scheduler.decay; F:2:9; "
            "one of: constant, linear, cosine");
  EXPECT_EQ(refusal("[parallelism]\nround_virtual_stages_to_pp_multiple = \"upwards\"\n"),
            "'upwards' is not a value of parallelism.round_virtual_stages_to_pp_multiple; "
            "F:2:39; one of: \"\", up, down");
  EXPECT_EQ(refusal("[lora]\ntarget = \"*\"\n"),
            "'*' is not a value of lora.target; F:2:10; one of: all-linear, or a list: [\"*\"]");
  EXPECT_EQ(refusal("[data]\ntrain_on = [\"user\"]\n"),
            "'user' is not a value of data.train_on; F:2:13; one of: assistant, last, all");
}

TEST_F(ConfigErrorTest, RefusesKeysOfRowsThatContradict) {
  EXPECT_EQ(
      refusal("[data]\nassistant_only_loss = true\ntrain_on = \"all\"\n"),
      "data.train_on = \"all\" contradicts `data.assistant_only_loss` = true; F:3:1; remove one "
      "of them");
  EXPECT_EQ(
      refusal("[data]\ntrain_on = [\"assistant\", \"last\"]\n"),
      "data.train_on = assistant, last; F:2:1; write [\"assistant\"], \"last\" or \"all\"; in "
      "a row, 'weight' or 'train' of a message excludes it");
  EXPECT_EQ(refusal("[data]\nfields = { promt = \"q\" }\n"),
            "'promt' is no field of a row; F:2:1; did you mean 'prompt'?");
}

TEST_F(ConfigErrorTest, NamesTheNearestWordOfAList) {
  EXPECT_EQ(refusal("[checkpoint]\nallow = [\"data\", \"modle\"]\n"),
            "'modle' is not a value of checkpoint.allow; F:2:18; did you mean 'model'?");
}

TEST_F(ConfigErrorTest, NamesTheNearestSchedule) {
  const std::string message = refusal("[parallelism]\npipeline_parallel_schedule = \"1F2B\"\n");
  EXPECT_TRUE(message.starts_with("parallelism.pipeline_parallel_schedule: ")) << message;
  EXPECT_NE(message.find("; F:2:1; "), std::string::npos) << message;
  EXPECT_NE(message.find("1F1B"), std::string::npos) << message;
}

TEST_F(ConfigErrorTest, NamesBothKeysOfABatchThatDoesNotDivide) {
  EXPECT_EQ(refusal("[training]\nmicrobatch_size = 4\nlocal_batch_size = 10\n"),
            "training.local_batch_size = 10 is not a multiple of training.microbatch_size = 4; "
            "F:3:1; the nearest batch is 8 or 12");
  EXPECT_EQ(refusal("[training]\nmicrobatch_size = 16\n"),
            "training.local_batch_size = 8 is not a multiple of training.microbatch_size = 16; "
            "F:2:1; the nearest batch is 16");
}

TEST_F(ConfigErrorTest, RefusesKeysThatExcludeEachOther) {
  EXPECT_EQ(refusal("[model]\npath = \"a\"\nconfig = \"b\"\n"),
            "model.path and model.config exclude each other; F:3:1; "
            "keep model.path to load weights, or model.config to initialise them");
  for (const std::string key :
       {"pipeline_parallel_layers_per_stage = 2", "pipeline_parallel_stages_per_rank = 2",
        "round_virtual_stages_to_pp_multiple = \"up\""}) {
    EXPECT_EQ(refusal("[parallelism]\npipeline_parallel_schedule_csv = \"a.csv\"\n" + key + "\n"),
              "parallelism." + key.substr(0, key.find(' ')) +
                  " and parallelism.pipeline_parallel_schedule_csv exclude each other; F:2:1; "
                  "leave it out: the schedule file sets the number of stages");
  }
  EXPECT_EQ(refusal("[parallelism]\npipeline_parallel_cuts = [\"a\"]\n"
                    "pipeline_parallel_split_points = [\"b\"]\n"),
            "parallelism.pipeline_parallel_split_points and parallelism.pipeline_parallel_cuts "
            "exclude each other; F:2:1; keep one of them");
}

TEST_F(ConfigErrorTest, AFileWithTheScheduleWinsOverAName) {
  EXPECT_EQ(refusal("[parallelism]\npipeline_parallel_schedule_csv = \"a.csv\"\n"
                    "pipeline_parallel_schedule = \"GPipe\"\n"),
            "accepted");
  EXPECT_NE(refusal("[parallelism]\npipeline_parallel_schedule_csv = \"a.csv\"\n"
                    "pipeline_parallel_schedule = \"GPip\"\n")
                .find("did you mean 'GPipe'?"),
            std::string::npos);
}

TEST_F(ConfigErrorTest, SplitPointsWinOverLayersPerStageWhereTheyDoInTorchtitan) {
  const std::string both =
      "pipeline_parallel_split_points = [\"layers.1\"]\npipeline_parallel_layers_per_stage = 2\n";
  for (const std::string convention : {"torchtitan", "torchtitan-2024", "torchtitan-current"}) {
    EXPECT_EQ(refusal("[parallelism]\npartition_convention = \"" + convention + "\"\n" + both),
              "accepted");
  }
  EXPECT_EQ(refusal("[parallelism]\n" + both),
            "parallelism.pipeline_parallel_split_points and "
            "parallelism.pipeline_parallel_layers_per_stage exclude each other; F:3:1; keep one of "
            "them");
  EXPECT_EQ(refusal("[parallelism]\npartition_convention = \"torchtitan\"\n" + both +
                    "pipeline_parallel_cuts = [\"layers.1\"]\n"),
            "parallelism.pipeline_parallel_split_points and parallelism.pipeline_parallel_cuts "
            "exclude each other; F:5:1; keep one of them");
}

TEST_F(ConfigErrorTest, RefusesImpossibleListsOfRanksAndBetas) {
  EXPECT_EQ(refusal("[parallelism]\npipeline_parallel_degree = 2\nstage_to_rank = [0, 2]\n"),
            "parallelism.stage_to_rank names rank 2, but parallelism.pipeline_parallel_degree = 2; "
            "F:3:1; ranks are 0 to 1");
  EXPECT_EQ(refusal("[parallelism]\nstage_to_rank = []\n"),
            "parallelism.stage_to_rank is an empty list; F:2:1; "
            "write \"auto\", or the rank of every stage");
  EXPECT_EQ(refusal("[optimizer]\nbetas = [0.9]\n"),
            "optimizer.betas: expected two numbers, found 1; F:2:1; "
            "for example optimizer.betas = [0.9, 0.95]");
}

TEST_F(ConfigErrorTest, RefusesAutocastToBfloat16OfAModelInFloat16) {
  const std::string both = "[training]\nmixed_precision = \"bfloat16\"\n[model]\ndtype = ";
  EXPECT_EQ(refusal(both + "\"float16\"\n"),
            "model.dtype = \"float16\" and training.mixed_precision = \"bfloat16\" exclude each "
            "other; F:2:1; set model.dtype = \"float32\" for products in bfloat16 and weights in "
            "float32");
  for (const char* dtype : {"\"float32\"\n", "\"bfloat16\"\n"})
    EXPECT_EQ(refusal(both + dtype), "accepted") << dtype;
}

TEST_F(ConfigErrorTest, RefusesWhatIsNotBuiltYet) {
  const std::map<std::string, std::string> not_built = {
      {"model.rewrites", "false"},
      {"parallelism.context_parallel_degree", "2"},
      {"parallelism.context_parallel_slices", "2"},
      {"parallelism.context_parallel_method", "\"allgather\""},
      {"parallelism.expert_parallel_sources", "1"},
  };
  for (const auto& [key, value] : not_built) {
    const std::string message = refusal("", {{key, value}});
    EXPECT_TRUE(
        message.starts_with(key + " = " + value + " is not built yet; --" + key + "; write "))
        << message;
  }
  EXPECT_EQ(refusal("[parallelism]\ncontext_parallel_degree = 1\ncontext_parallel_slices = 0\n"
                    "context_parallel_method = \"alltoall\"\nexpert_parallel_sources = 0\n"),
            "accepted");
}

TEST_F(ConfigErrorTest, TakesAScheduleThatIsChosen) {
  for (const std::string word : {"auto", "Auto"}) {
    EXPECT_EQ(refusal("[parallelism]\npipeline_parallel_schedule = \"" + word + "\"\n"),
              "accepted");
  }
}

TEST_F(ConfigErrorTest, RefusesAFileBesideAScheduleThatIsChosen) {
  EXPECT_EQ(refusal("[parallelism]\npipeline_parallel_schedule = \"auto\"\n"
                    "pipeline_parallel_schedule_csv = \"own.csv\"\n"),
            "parallelism.pipeline_parallel_schedule and "
            "parallelism.pipeline_parallel_schedule_csv exclude each other; F:3:1; keep one of "
            "them: both set the schedule");
}

TEST_F(ConfigErrorTest, RefusesCutsBesideASplitThatFindsThem) {
  for (const std::string key :
       {"pipeline_parallel_cuts = [\"model.layers.1\"]", "pipeline_parallel_layers_per_stage = 2",
        "first_stage_weight = 1"}) {
    const std::string message = refusal("[parallelism]\npartition = \"measured\"\n" + key + "\n");
    EXPECT_EQ(message,
              "parallelism.partition and parallelism." + key.substr(0, key.find(' ')) +
                  " exclude each other; F:3:1; \"measured\" chooses the cuts: keep one of them");
  }
}

TEST_F(ConfigErrorTest, TakesAmountsOfMemory) {
  for (const char* text : {"80GB", "80gb", "1.5 GiB", "640MiB", "123456"})
    EXPECT_EQ(refusal("", {{"parallelism.device_memory", "\"" + std::string(text) + "\""}}),
              "accepted")
        << text;
  for (const char* text : {"lots", "80XB", "-1GB", "0", "GB", "1e3GB", "80GB80"}) {
    EXPECT_EQ(refusal("", {{"parallelism.device_memory", "\"" + std::string(text) + "\""}}),
              "parallelism.device_memory: '" + std::string(text) +
                  "' is not an amount of memory; --parallelism.device_memory; write \"80GB\", "
                  "\"640MiB\" or a number of bytes");
  }
}

TEST_F(ConfigErrorTest, ADefaultOnTheCommandLineUndoesWhatIsNotBuilt) {
  EXPECT_EQ(refusal("[model]\nrewrites = false\n"),
            "model.rewrites = false is not built yet; F:2:1; write true");
  EXPECT_EQ(refusal("[model]\nrewrites = false\n", {{"model.rewrites", "true"}}), "accepted");
}

TEST_F(ConfigErrorTest, NamesTheOverrideOrTheVariable) {
  EXPECT_EQ(refusal("", {{"training.stps", "3"}}),
            "unknown key 'training.stps'; --training.stps; did you mean 'steps'?");
  EXPECT_EQ(refusal("", {{"training.steps", "abc"}}),
            "training.steps: expected an integer, found the string \"abc\"; --training.steps; "
            "for example training.steps = 100");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_TRAINING_STEPS", "-1"}}),
            "training.steps: the integer -1 is out of range; SLUICE_TRAINING_STEPS; "
            "write a number 1 to 1000000000000000");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_TRAINING_STPES", "1"}}),
            "unknown variable SLUICE_TRAINING_STPES; environment; "
            "did you mean 'SLUICE_TRAINING_STEPS'?");
}

TEST_F(ConfigErrorTest, NoVariableIsIgnored) {
  EXPECT_EQ(refusal("", {}, {{"SLUICE_STEPS", "3"}}),
            "unknown variable SLUICE_STEPS; environment; did you mean 'SLUICE_TRAINING_STEPS'?");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_METRICS", "3"}}),
            "unknown variable SLUICE_METRICS; environment; one of: SLUICE_METRICS_FOLDER, "
            "SLUICE_METRICS_LOG_FREQ, SLUICE_METRICS_LOG_LEVEL, SLUICE_METRICS_PARAMETER_NORMS, "
            "SLUICE_METRICS_REPORT, SLUICE_METRICS_ENABLE_TENSORBOARD");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_", "3"}}),
            "unknown variable SLUICE_; environment; unset it, or name a key as SLUICE_SECTION_KEY: "
            "see `sluice config reference`");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_training_steps", "3"}}),
            "unknown variable SLUICE_training_steps; environment; did you mean "
            "'SLUICE_TRAINING_STEPS'?");
}

TEST_F(ConfigErrorTest, TheVariablesThatAreNoKeysAreKnown) {
  EXPECT_EQ(refusal("", {}, {{"SLUICE_JOB_SECRET", "s"}}), "accepted");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_FAULT", "kill:rank=1,step=3"}}), "accepted");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_FAULT", "kil:rank=1"}}),
            "unknown fault 'kil'; SLUICE_FAULT; did you mean 'kill'?");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_CPU", "base"}}), "accepted");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_CPU", "avx51"}}),
            "unknown instruction set 'avx51'; SLUICE_CPU; did you mean 'avx512'?");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_PRODUCTS", "libtorch"}}), "accepted");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_PRODUCTS", ""}}), "accepted");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_PRODUCTS", "torch"}}),
            "unknown kind of matrix products 'torch'; SLUICE_PRODUCTS; one of: own, libtorch");
}

TEST_F(ConfigErrorTest, NamesTheNearestVariableThatIsNoKey) {
  EXPECT_EQ(refusal("", {}, {{"SLUICE_PRODUCT", "own"}}),
            "unknown variable SLUICE_PRODUCT; environment; did you mean 'SLUICE_PRODUCTS'?");
  EXPECT_EQ(refusal("", {}, {{"SLUICE_FAULTS", "kill:rank=1"}}),
            "unknown variable SLUICE_FAULTS; environment; did you mean 'SLUICE_FAULT'?");
}

TEST_F(ConfigErrorTest, NamesVariablesOfPathsThatAreNotSet) {
  EXPECT_EQ(
      refusal("[model]\npath = \"${SLUICE_NO_SUCH_VARIABLE}/x\"\n"),
      "the variable SLUICE_NO_SUCH_VARIABLE is not set; F:2:1; set it, or write the path out");
  EXPECT_EQ(refusal("[model]\npath = \"a/${HOME\"\n"),
            "the path 'a/${HOME' has '${' without '}'; F:2:1; add the '}'");
}

TEST_F(ConfigErrorTest, NamesAFileThatCannotBeRead) {
  const std::string file = folder_ / "none.toml";
  try {
    load_run_config(file, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              "cannot open file: No such file or directory; " + file + "; check the path");
    EXPECT_EQ(error.exit_code(), 2);
  }
  EXPECT_THROW(load_run_config(folder_.str(), {}, {}), Error);
}

TEST_F(ConfigErrorTest, PointsAtWhatIsNotToml) {
  for (const std::string text : {"[training]\nsteps = \n", "[training]\nsteps = 1\nsteps = 2\n",
                                 "[training\n", "a = [1, 2\n", "x = \"\\q\"\n", "\xff\xfe = 1\n"}) {
    const std::string message = refusal(text);
    EXPECT_TRUE(message.starts_with("not TOML: ")) << message;
    EXPECT_NE(message.find("; F:"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("[training]\nsteps = 1\nsteps = 2\n").find("F:3:"), std::string::npos);
}

TEST_F(ConfigErrorTest, SurvivesHostileText) {
  const std::size_t many = 300'000;
  std::string dotted, tables, inline_tables, header = "[a";
  for (std::size_t i = 0; i < many; ++i) {
    dotted += "a.";
    header += ".a";
    inline_tables += "{a=";
  }
  EXPECT_EQ(refusal(dotted + "a = 1\n"),
            "the key has more than 16 parts; F:1:32; write [section], then one key = value a line");
  EXPECT_EQ(refusal(header + "]\n"),
            "the key has more than 16 parts; F:1:33; write [section], then one key = value a line");
  EXPECT_TRUE(refusal("x = " + std::string(many, '[')).starts_with("not TOML: "));
  EXPECT_TRUE(refusal("x = " + inline_tables).starts_with("not TOML: "));
  EXPECT_EQ(refusal(std::string((std::size_t{1} << 20) + 1, '\n')),
            "the file is larger than 1.00MiB; F; is it the right file?");
  EXPECT_EQ(refusal("[model]\npath = \"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t\"\n"), "accepted");
  EXPECT_EQ(refusal("", {{"training.steps", "1\nzero1 = true"}}),
            "training.steps: expected an integer, found the string \"1\\nzero1 = true\"; "
            "--training.steps; for example training.steps = 100");
}

TEST_F(ConfigErrorTest, AnswersEveryMutationWithAnErrorOrAConfiguration) {
  const std::string original =
      test::read_file(std::string(SLUICE_TEST_DATA) + "/../examples/quickstart.toml");
  ASSERT_FALSE(original.empty());
  std::mt19937 random(7);
  const std::string alphabet = "[]{}=.,\"'#\\\n\0 abz019-+_eEx\xff";
  int accepted = 0;
  for (int sample = 0; sample < 500; ++sample) {
    std::string text = original;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      switch (random() % 4) {
        case 0:
          text[at] = letter;
          break;
        case 1:
          text.insert(at, 1 + random() % 3, letter);
          break;
        case 2:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    const std::string message = refusal(text);
    EXPECT_EQ(message.find('\n'), std::string::npos);
    accepted += message == "accepted";
  }
  EXPECT_GT(accepted, 25);
  EXPECT_LT(accepted, 475);
}

}  // namespace
}  // namespace sluice
