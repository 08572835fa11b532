// The rows of the table.
#include "config/key_table.h"

#include "config/key_row.h"

namespace sluice::detail {
namespace {

constexpr double kMaxCount = 1 << 20;  // of ranks, stages, microbatches: an int holds it
constexpr double kMaxSteps = 1e15;     // a double holds it exactly
constexpr double kMaxSeconds = 1e7;    // of a wait: 115 days

std::vector<Key> make_table() {
  using C = RunConfig;
  using Model = ModelOptions;
  using Lora = LoraOptions;
  using Data = DataOptions;
  using Training = TrainingOptions;
  using Optimizer = OptimizerOptions;
  using LearningRate = LearningRateOptions;
  using Parallel = ParallelismOptions;
  using Pipeline = PipelineOptions;
  using Replicas = DataParallel;
  using Shares = TensorParallel;
  using Split = PartitionOptions;
  using Validation = ValidationOptions;
  using Comm = CommOptions;
  using Checkpoint = CheckpointOptions;
  using Metrics = MetricsOptions;
  return {
      key<&C::model, &Model::path>("model", "path")
          .path()
          .is_option("path")
          .means("Hugging Face directory: config.json, *.safetensors (and index), "
                 "tokenizer.json. Either this or `model.config`."),
      key<&C::model, &Model::graph>("model", "graph")
          .path()
          .means("An exported graph (model.pt2, docs/any-model.md) in place of a family's layers; "
                 "its weights are from `model.path`, else from the archive, else drawn."),
      key<&C::model, &Model::loss_output>("model", "loss_output")
          .decides_the_numbers()
          .is_option("loss_output")
          .means("The result of an exported graph that is the loss. Empty: what the archive says, "
                 "else the causal loss on `logits`."),
      key<&C::model, &Model::adapter>("model", "adapter")
          .path()
          .means("PEFT adapter directory to resume from: its adapter_config.json says what [lora] "
                 "says of a "
                 "new one. `model.path` is its base."),
      unbuilt_key("model", "rewrites", [](const C&) -> Value { return true; })
          .decides_the_numbers()
          .means("Rewrite what an exported graph computes into faster operators."),
      key<&C::model, &Model::transformer_layer_cls>("model", "transformer_layer_cls")
          .is_option("layer_class")
          .means("Class of the blocks of an exported graph, such as `LlamaDecoderLayer`. Empty: "
                 "the elements of its lists."),
      key<&C::model, &Model::config>("model", "config")
          .path()
          .means("Only a config.json: weights are initialised, the same bits for every layout."),
      key<&C::model, &Model::dtype>("model", "dtype")
          .decides_the_numbers()
          .is_option("dtype")
          .means("Type of the parameters and of the whole computation; sums of gradients and the "
                 "optimizer's state are float32. Weights of another type are converted. `float16` "
                 "holds at most 65504, and nothing scales the loss: prefer `bfloat16`."),

      key<&C::lora, &Lora::rank>("lora", "rank")
          .decides_the_numbers()
          .between(0, kMaxCount)
          .is_option("lora.rank")
          .means("Rank of a new adapter; the rest of the model is frozen. 0: no adapter."),
      key<&C::lora, &Lora::alpha>("lora", "alpha")
          .decides_the_numbers()
          .above(0)
          .means("What the adapter adds is scaled by alpha / rank."),
      key<&C::lora, &Lora::dropout>("lora", "dropout")
          .decides_the_numbers()
          .at_least(0)
          .below(1)
          .means("Share of the adapter's inputs that are dropped."),
      key<&C::lora, &Lora::target>("lora", "target")
          .decides_the_numbers()
          .is_option("lora.target")
          .means("Name patterns of the linear layers that get an adapter, as "
                 "`model.layers.0.self_attn.q_proj`; `*` is any run of characters."),

      key<&C::data, &Data::files>("data", "files")
          .is_option("data.files")
          .path()
          .not_empty()
          .means(
              "Files to train on: .txt, .jsonl, .bin of token ids, and any other ending as text. "
              "`*` and `?` match within a folder, `**` any depth of folders; the files of a "
              "pattern are read in the order of their names, and a file that several patterns "
              "match is read once."),
      key<&C::data, &Data::format>("data", "format")
          .is_option("data.format")
          .means("`auto`: by the ending of each file, upper or lower case: .jsonl; .bin, which is "
                 "Megatron's with an .idx beside it, llm.c's by its magic number, else nanoGPT's; "
                 "anything else is text, but for endings that are certainly none (such as .gz, "
                 ".json, .parquet), which are refused."),
      key<&C::data, &Data::shuffle>("data", "shuffle")
          .decides_the_data()
          .means("Shuffle the sequences, by `training.seed`. false: file order, start again at "
                 "the end."),
      key<&C::data, &Data::tokenizer>("data", "tokenizer")
          .is_option("data.tokenizer")
          .decides_the_data()
          .path()
          .not_empty()
          .means("`bytes`: every byte is a token. `auto`: the model's tokenizer.json, bytes "
                 "without one. Else the path of a tokenizer.json or of a directory with one."),
      key<&C::data, &Data::pad>("data", "pad")
          .decides_the_data()
          .means("Length to which shorter rows are padded: `training.seq_len`, or that of the "
                 "microbatch's longest row."),
      key<&C::data, &Data::pack>("data", "pack")
          .is_option("data.pack")
          .decides_the_data()
          .means("Several documents in a row, attention inside each. Whole rows of .jsonl are put "
                 "together; text and token files are told apart where their documents start."),
      key<&C::data, &Data::truncate>("data", "truncate")
          .is_option("data.truncate")
          .decides_the_data()
          .means("Cut rows of a .jsonl file that are longer than `training.seq_len`. false: they "
                 "are an error."),
      key<&C::data, &Data::chat_template>("data", "chat_template")
          .is_option("data.chat_template")
          .decides_the_data()
          .means("How the messages of a conversation become text. `auto`: as the tokenizer's "
                 "special tokens, or the model's family, have it; refused where neither says it."),
      key<&C::data, &Data::assistant_only_loss>("data", "assistant_only_loss")
          .decides_the_data()
          .means("Of conversations count only what the assistant says. false: all of it."),
      key<&C::data, &Data::weights>("data", "weights")
          .is_option("data.weights")
          .decides_the_data()
          .above(0)
          .means("Share of each entry of `data.files` in the mixture; each may have a format of "
                 "its own. Empty: as long as they are."),

      key<&C::training, &Training::steps>("training", "steps")
          .between(1, kMaxSteps)
          .means("Optimizer steps."),
      key<&C::training, &Training::local_batch_size>("training", "local_batch_size")
          .decides_the_numbers()
          .between(1, kMaxCount)
          .means("Sequences of a replica and step; a multiple of `training.microbatch_size`."),
      key<&C::training, &Training::microbatch_size>("training", "microbatch_size")
          .decides_the_numbers()
          .is_option("microbatch_size")
          .between(1, kMaxCount)
          .means("Sequences per microbatch."),
      key<&C::training, &Training::seq_len>("training", "seq_len")
          .decides_the_data()
          .is_option("seq_len")
          .between(2, 1 << 30)
          .means("Tokens per sequence."),
      key<&C::training, &Training::seed>("training", "seed")
          .decides_the_data()
          .at_least(0)
          .means("Of initialisation, shuffling and dropout."),
      key<&C::training, &Training::threads_per_rank>("training", "threads_per_rank")
          .decides_the_numbers()
          .between(0, 1024)
          .means("Threads of each rank's operators. 0: cores / ranks on this machine. Equal bits "
                 "are promised for equal values."),
      key<&C::training, &Training::device>("training", "device")
          .means("Where ranks compute: `cpu`; `cuda`: each on the GPU of its number among the "
                 "ranks of its machine; `auto`: `cuda` where the machine has as many GPUs as "
                 "ranks, else `cpu` (docs/gpus.md). Numbers of the two differ by rounding."),
      key<&C::training, &Training::trainable>("training", "trainable")
          .decides_the_numbers()
          .is_option("trainable")
          .means("Name patterns of the parameters to train; the rest is frozen: it has no gradient "
                 "and no optimizer state, and what would be computed for it alone leaves the "
                 "program. A tied parameter goes by any of its names."),
      key<&C::training, &Training::global_batch_size>("training", "global_batch_size")
          .decides_the_numbers()
          .between(0, kMaxCount)
          .means("Sequences of a step over all replicas, instead of `training.local_batch_size`; a "
                 "multiple of `parallelism.data_parallel_degree` x `training.microbatch_size`. 0: "
                 "not given."),
      key<&C::training, &Training::mixed_precision>("training", "mixed_precision")
          .decides_the_numbers()
          .means("`bfloat16`: products of matrices are computed in it (autocast); weights, sums, "
                 "norms and the loss stay as they are."),
      activation_checkpoint_key()
          .one_of({"none", "full"})
          .not_empty()
          .is_option("activation_checkpoint")
          .means("Layers that keep only what enters them and run again in the backward: `none`, "
                 "`full` (every block), or a list of layer names."),
      key<&C::training, &Training::fused>("training", "fused")
          .decides_the_numbers()
          .is_option("fused")
          .means("`auto`: blocks, norms, head and loss run as fused operators where these take "
                 "them (docs/fused.md says when); `off`: LibTorch's operators. The numbers "
                 "differ by rounding."),
      key<&C::training, &Training::loss_chunks>("training", "loss_chunks")
          .decides_the_numbers()
          .means(
              "Head and loss by blocks of the vocabulary, so that all logits of a microbatch are "
              "never in memory, for up to a third more time in the head. `auto`: from a "
              "vocabulary of 32768 on. Where operators are not fused, whole logits."),

      key<&C::optimizer, &Optimizer::kind>("optimizer", "name")
          .decides_the_numbers()
          .is_option("kind")
          .means("Update rule. SGD is without momentum."),
      key<&C::optimizer, &Optimizer::lr>("optimizer", "lr")
          .decides_the_numbers()
          .is_option("lr")
          .at_least(0)
          .means("Learning rate, before `lr_scheduler`."),
      betas_key().decides_the_numbers().at_least(0).below(1).means(
          "Two decay rates of AdamW's moments."),
      key<&C::optimizer, &Optimizer::eps>("optimizer", "eps")
          .decides_the_numbers()
          .at_least(0)
          .means("Added to AdamW's denominator."),
      key<&C::optimizer, &Optimizer::weight_decay>("optimizer", "weight_decay")
          .decides_the_numbers()
          .at_least(0)
          .means("Decoupled weight decay, on every parameter but those of `optimizer.no_decay`."),
      key<&C::optimizer, &Optimizer::no_decay>("optimizer", "no_decay")
          .decides_the_numbers()
          .means("Name patterns of the parameters without weight decay."),
      key<&C::optimizer, &Optimizer::max_norm>("optimizer", "max_norm")
          .decides_the_numbers()
          .is_option("max_norm")
          .at_least(0)
          .means("Clips the global gradient norm over all stages. 0: no clipping; the norm is "
                 "reported all the same."),

      key<&C::lr_scheduler, &LearningRate::warmup_steps>("lr_scheduler", "warmup_steps")
          .decides_the_numbers()
          .between(0, kMaxSteps)
          .means("The rate of step k is `lr * k / warmup_steps` until then."),
      key<&C::lr_scheduler, &LearningRate::decay>("lr_scheduler", "decay")
          .decides_the_numbers()
          .means("From the warm-up's end to the last step."),
      key<&C::lr_scheduler, &LearningRate::min_lr_factor>("lr_scheduler", "min_lr_factor")
          .decides_the_numbers()
          .between(0, 1)
          .means("The decay ends at `lr * min_lr_factor`."),

      key<&C::parallelism, &Parallel::pipeline, &Pipeline::num_ranks>("parallelism",
                                                                      "pipeline_parallel_degree")
          .decides_the_split()
          .is_option("num_ranks")
          .between(1, 65536)
          .means("Ranks of the pipeline."),
      schedule_key()
          .decides_the_split()
          .is_option("schedule")
          .not_empty()
          .means("Name of the schedule, any case: see `sluice schedule --help`. `auto`: the proven "
                 "one that is expected to be fastest under `parallelism.device_memory`, with as "
                 "many stages a rank as it wants; `parallelism.partition` is then `measured` "
                 "unless it is given."),
      key<&C::parallelism, &Parallel::schedule_csv>("parallelism", "pipeline_parallel_schedule_csv")
          .path()
          .decides_the_split()
          .is_option("own_schedule")
          .means("File with the schedule, in torch's CSV form. It wins over a name."),
      stage_to_rank_key()
          .decides_the_split()
          .is_option("stage_to_rank")
          .one_of({"auto", "loop", "v"})
          .between(0, 65535)
          .means("`auto`: as the schedule places its stages; `loop`: stage s on rank s mod P; "
                 "`v`: ranks forth and back; or a list, the rank of every stage."),
      partition_convention_key()
          .decides_the_split()
          .is_option("partition_convention")
          .means("Whose rules and names the split follows."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::split_points>(
          "parallelism", "pipeline_parallel_split_points")
          .decides_the_split()
          .means("Cut before these layers. Under the `torchtitan` conventions they win over "
                 "`pipeline_parallel_layers_per_stage`."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::cuts>(
          "parallelism", "pipeline_parallel_cuts")
          .decides_the_split()
          .means("Cut after these layers."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::layers_per_stage>(
          "parallelism", "pipeline_parallel_layers_per_stage")
          .decides_the_split()
          .is_option("layers_per_stage")
          .between(0, kMaxCount)
          .means("Layers of a stage. 0: even, for the stages that the schedule needs."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::stages_per_rank>(
          "parallelism", "pipeline_parallel_stages_per_rank")
          .decides_the_split()
          .between(0, kMaxCount)
          .means("Virtual stages of a rank. 0: as the schedule needs."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::rounding>(
          "parallelism", "round_virtual_stages_to_pp_multiple")
          .decides_the_split()
          .means("Rounds the number of stages to a multiple of the ranks. Empty: it must be one."),
      first_stage_weight_key()
          .decides_the_split()
          .between(0, kMaxCount)
          .means("Layers that the embedding counts for in the split. Conventions torchtitan and "
                 "torchtitan-current: 1 by default."),
      last_stage_weight_key()
          .decides_the_split()
          .between(0, kMaxCount)
          .means("Layers that norm and head count for in the split; the same default."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::modules>(
          "parallelism", "module_fqns_per_model_part")
          .decides_the_split()
          .means("Module names of every stage."),
      scale_grads_key()
          .decides_the_numbers()
          .between(kLeastDivisor, kMostDivisor)
          .means("`tokens`: the gradient of the mean over the counted tokens of the whole step. "
                 "`microbatches`: of the mean over microbatches of each one's mean. `none`: of "
                 "the sum over microbatches of each one's mean. A number d: `none` divided by d. "
                 "true is `microbatches`, false is `none`."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel,
          &Replicas::per_microbatch>("parallelism", "reduce_grad_per_microbatch")
          .decides_the_numbers()
          .is_option("data_parallel.per_microbatch")
          .means("Sum gradients over the replicas after every microbatch, not once a step: the "
                 "bits then depend on the degree. Not with `parallelism.zero3`."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::degree>(
          "parallelism", "data_parallel_degree")
          .decides_the_numbers()
          .is_option("data_parallel.degree")
          .between(1, 65536)
          .means("Replicas of the pipeline, each with its own rows of every batch: the run has "
                 "`parallelism.pipeline_parallel_degree` times as many ranks."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::shards>(
          "parallelism", "data_parallel_shards")
          .decides_the_numbers()
          .is_option("data_parallel.shards")
          .between(0, 65536)
          .means("Partial sums of gradients, on which the bits depend; a multiple of "
                 "`parallelism.data_parallel_degree`, and a divisor of the microbatches of all "
                 "replicas. 0: as many as the degree."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::zero1>(
          "parallelism", "zero1")
          .means("Shard the optimizer's state over the replicas (ZeRO-1)."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::zero3>(
          "parallelism", "zero3")
          .is_option("data_parallel.zero3")
          .means("Shard the parameters, too, which are gathered where a stage needs them (ZeRO-3); "
                 "the optimizer's state with them, whatever `parallelism.zero1` says."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::reduction>(
          "parallelism", "reduction")
          .decides_the_numbers()
          .means("`exact`: the same bits for every degree that divides the shards; `fast`: the "
                 "all-reduce of the transport, whose order is its own."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::rank_order>("parallelism", "rank_order")
          .is_option("rank_order")
          .means("How ranks are numbered, the fastest axis last: pp, dp, cp and tp in any order. "
                 "`pp,dp` and `dp,pp` are short for it with cp and tp behind them: with `dp,pp` "
                 "those of a pipeline follow each other, with `pp,dp` those of a stage."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::tensor_parallel, &Shares::degree>(
          "parallelism", "tensor_parallel_degree")
          .decides_the_numbers()
          .is_option("tensor_parallel.degree")
          .between(1, 65536)
          .means("Ranks that share every layer: the run has as many times the ranks. A power of "
                 "two that divides `parallelism.tensor_parallel_slices`, or as many. Not for "
                 "GPT-2, OLMo 2, OLMoE, adapters and graphs, which are not divided yet."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::tensor_parallel, &Shares::slices>(
          "parallelism", "tensor_parallel_slices")
          .decides_the_numbers()
          .is_option("tensor_parallel.slices")
          .between(0, 65536)
          .means("Slices into which layers are divided, on which the bits depend; they divide the "
                 "key-value heads. 0: as many as the degree, and nothing is computed in pieces."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::tensor_parallel, &Shares::sequence>(
          "parallelism", "sequence_parallel")
          .means("Between layers that are divided, each of the ranks that share them has rows of "
                 "its own. Changes no bit."),
      key<&C::parallelism, &Parallel::transport>("parallelism", "transport")
          .means("`threads`: all ranks in one process; `gloo`: between processes, over TCP; "
                 "`nccl`: between GPUs, not built yet; `auto`: `gloo` between processes. "
                 "Ranks of one process exchange by threads; without a launcher `gloo` gives each a "
                 "connection of its own."),
      key<&C::parallelism, &Parallel::partition>("parallelism", "partition")
          .decides_the_split()
          .means("What the split balances: `even` numbers of layers, their counted `cost`, or "
                 "their time `measured` on this machine. Other than `even`: not with keys that say "
                 "where to cut."),
      key<&C::parallelism, &Parallel::costs>("parallelism", "costs")
          .decides_the_split()
          .path()
          .means("File of measured costs, made by `sluice plan --measure`. Empty: measured at the "
                 "start where they are needed."),
      device_memory_key()
          .is_option("memory_per_rank")
          .means(
              "Memory that a rank may use, `\"80GB\"` or `\"640MiB\"`: no split or schedule that "
              "needs more is chosen, and a run that does is refused. Empty: what the machine has, "
              "divided among its ranks, where something is chosen."),

      key<&C::validation, &Validation::files>("validation", "files")
          .path()
          .not_empty()
          .means(
              "Files to take the validation loss on, as `data.files`; read in file order. Empty: "
              "none."),
      key<&C::validation, &Validation::interval>("validation", "interval")
          .between(0, kMaxSteps)
          .means(
              "The validation loss is taken, and `validation.prompts` are gone on with, after the "
              "update of the steps that this divides. 0: never."),
      key<&C::validation, &Validation::steps>("validation", "steps")
          .between(0, kMaxSteps)
          .means("Batches of a validation, of `training.local_batch_size` sequences. 0: all of the "
                 "files."),
      key<&C::validation, &Validation::prompts>("validation", "prompts")
          .not_empty()
          .means("Texts that the model goes on with, each next token the likeliest, in the log and "
                 "in `metrics.jsonl`. They need no `validation.files`."),
      key<&C::validation, &Validation::prompt_tokens>("validation", "prompt_tokens")
          .between(1, 1 << 20)
          .means("New tokens for each of `validation.prompts`, at most."),

      key<&C::comm, &Comm::init_timeout_seconds>("comm", "init_timeout_seconds")
          .above(0)
          .at_most(kMaxSeconds)
          .means("How long processes wait for each other at the start."),
      key<&C::comm, &Comm::train_timeout_seconds>("comm", "train_timeout_seconds")
          .above(0)
          .at_most(kMaxSeconds)
          .means("How long a rank waits for a message of another process, and the run for a rank "
                 "that hangs."),
      key<&C::comm, &Comm::heartbeat_seconds>("comm", "heartbeat_seconds")
          .at_least(0.1)
          .at_most(kMaxSeconds)
          .means("A process that was silent for longer counts as lost. They tell each other "
                 "several times "
                 "as often that they are alive."),

      key<&C::checkpoint, &Checkpoint::folder>("checkpoint", "folder")
          .path()
          .not_empty()
          .means("Where the checkpoints are: `<folder>/step-XXXXXXXX/`, each a Hugging Face "
                 "directory with the optimizer's state beside the weights. That of the last step "
                 "is the result of the run."),
      key<&C::checkpoint, &Checkpoint::interval>("checkpoint", "interval")
          .between(0, kMaxSteps)
          .means("Steps between checkpoints. 0: only at the end."),
      key<&C::checkpoint, &Checkpoint::keep_latest_k>("checkpoint", "keep_latest_k")
          .between(0, kMaxCount)
          .means("So many of the run's checkpoints, the newest, are kept; older ones are removed "
                 "when a new one is committed. 0: all."),
      key<&C::checkpoint, &Checkpoint::keep_every>("checkpoint", "keep_every")
          .between(0, kMaxSteps)
          .means("Checkpoints of the steps that this divides are never removed. 0: none."),
      resume_key().path().not_empty().at_least(0).means(
          "`auto`: resume from the newest checkpoint in `checkpoint.folder` that verifies, or "
          "start "
          "where there is none; `none`: start anew; a step: from that checkpoint of the folder; or "
          "the path of a checkpoint."),
      key<&C::checkpoint, &Checkpoint::async>("checkpoint", "async")
          .means("Write checkpoints behind the training. The last one is always written before the "
                 "end."),
      key<&C::checkpoint, &Checkpoint::commit>("checkpoint", "commit")
          .means("How a checkpoint appears as a whole: by a `rename`, or, where renames are not "
                 "atomic, by a `marker`, its manifest.json, which is written last; a step that is "
                 "committed is then never replaced."),
      key<&C::checkpoint, &Checkpoint::on_save_error>("checkpoint", "on_save_error")
          .means("What a checkpoint that cannot be written does to the run: `stop` ends it, "
                 "`continue` is a warning, but for the last one."),
      key<&C::checkpoint, &Checkpoint::allow>("checkpoint", "allow")
          .one_of({"data", "model"})
          .means("What may differ from the checkpoint that a run resumes from; without it other "
                 "data or another model (by size and content, never by path or time) is refused."),

      key<&C::metrics, &Metrics::folder>("metrics", "folder")
          .path()
          .not_empty()
          .means("Where metrics.jsonl is written."),
      key<&C::metrics, &Metrics::log_freq>("metrics", "log_freq")
          .between(1, kMaxSteps)
          .means("Steps between log lines."),
      key<&C::metrics, &Metrics::log_level>("metrics", "log_level")
          .means("The least that is logged. `debug` has a line for every stage."),
      key<&C::metrics, &Metrics::parameter_norms>("metrics", "parameter_norms")
          .means("Adds the gradient norm of every parameter to metrics.jsonl."),
      key<&C::metrics, &Metrics::report>("metrics", "report")
          .means(
              "At the end, after a failure or a stop too, a page that shows the run: report.html."),
      key<&C::metrics, &Metrics::enable_tensorboard>("metrics", "enable_tensorboard")
          .means("At the end also an event file for TensorBoard."),
  };
}

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = make_table();
  return table;
}

}  // namespace sluice::detail
