#include "config/key_table.h"

#include "config/key_row.h"

namespace sluice::detail {
namespace {

constexpr double kMaxCount = 1 << 20;  // of ranks, stages or microbatches; fits an int
constexpr double kMaxSteps = 1e15;     // exact as a double
constexpr double kMaxSeconds = 1e7;    // 115 days

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
          .means("Hugging Face directory with config.json, *.safetensors (and index) and "
                 "tokenizer.json. Set either this or `model.config`."),
      key<&C::model, &Model::graph>("model", "graph")
          .path()
          .means("Exported graph (model.pt2, docs/any-model.md) instead of a native family. "
                 "Weights come from `model.path`, else from the archive, else they are drawn."),
      key<&C::model, &Model::loss_output>("model", "loss_output")
          .decides_the_numbers()
          .is_option("loss_output")
          .means("Name of the graph's result that is the loss. Empty: the archive's loss, else the "
                 "causal loss on `logits`."),
      key<&C::model, &Model::graph_sizes>("model", "graph_sizes")
          .is_option("graph_sizes")
          .means("Sizes of the graph for the plan, besides rows and length: "
                 "`[\"decoder_length=64\"]`. Other sizes keep their exported values. Training uses "
                 "the sizes of its rows."),
      key<&C::model, &Model::adapter>("model", "adapter")
          .path()
          .means("PEFT adapter directory to resume from. `model.path` is its base, and its "
                 "adapter_config.json replaces [lora]."),
      unbuilt_key("model", "rewrites", [](const C&) -> Value { return true; })
          .decides_the_numbers()
          .means("Replace parts of an exported graph by faster operators."),
      unbuilt_key("model", "compiled", [](const C&) -> Value { return std::string("auto"); })
          .means("Packages of compiled chunks beside an exported graph."),
      key<&C::model, &Model::transformer_layer_cls>("model", "transformer_layer_cls")
          .is_option("layer_class")
          .means("Class of the graph's repeated blocks, such as `LlamaDecoderLayer`. Empty: the "
                 "elements of its module lists."),
      key<&C::model, &Model::config>("model", "config")
          .path()
          .means("A config.json alone. Weights are drawn, with the same bits in every layout."),
      key<&C::model, &Model::dtype>("model", "dtype")
          .decides_the_numbers()
          .is_option("dtype")
          .means("Type of parameters and computation. Weights of another type are converted. "
                 "Gradient sums and optimizer state stay float32. `float16` holds at most 65504 "
                 "without a scaled loss, so prefer `bfloat16`."),

      key<&C::lora, &Lora::rank>("lora", "rank")
          .decides_the_numbers()
          .between(0, kMaxCount)
          .is_option("lora.rank")
          .means("Rank of a new adapter. The rest of the model is frozen. 0: no adapter."),
      key<&C::lora, &Lora::alpha>("lora", "alpha")
          .decides_the_numbers()
          .above(0)
          .means("The adapter's output is scaled by alpha / rank."),
      key<&C::lora, &Lora::dropout>("lora", "dropout")
          .decides_the_numbers()
          .at_least(0)
          .below(1)
          .means("Dropout probability of the adapter's inputs."),
      lora_target_key()
          .decides_the_numbers()
          .is_option("lora.target")
          .one_of({"all-linear"})
          .means("Name patterns of the linear layers to adapt, such as "
                 "`model.layers.0.self_attn.q_proj`, where `*` matches any characters. "
                 "`all-linear`: all but the output layer."),
      unbuilt_key("lora", "modules_to_save",
                  [](const C&) -> Value { return std::vector<std::string>(); })
          .decides_the_numbers()
          .means("Embedding and head that train whole beside the adapter."),

      key<&C::data, &Data::files>("data", "files")
          .is_option("data.files")
          .path()
          .not_empty()
          .means(
              "Training files or patterns: .txt, .jsonl, .json, or .bin with token ids. Files of a "
              "pattern are read in order of name, and each file only once."),
      key<&C::data, &Data::format>("data", "format")
          .is_option("data.format")
          .means(
              "`auto` selects by each file's ending (docs/data.md), in any case. Endings of other "
              "data and content of another format are refused."),
      key<&C::data, &Data::shuffle>("data", "shuffle")
          .decides_the_data()
          .means("Shuffle the sequences with `training.seed`. false: file order, repeated at the "
                 "end."),
      key<&C::data, &Data::tokenizer>("data", "tokenizer")
          .is_option("data.tokenizer")
          .decides_the_data()
          .path()
          .not_empty()
          .means("`bytes`: every byte is a token. `auto`: the tokenizer.json of `model.path` or "
                 "beside `model.config`, else bytes with a warning. Another form of tokenizer "
                 "there is refused. Otherwise the path of a tokenizer.json or of its directory."),
      key<&C::data, &Data::pad>("data", "pad")
          .decides_the_data()
          .means("Pad shorter rows to `training.seq_len` or to the microbatch's longest row."),
      key<&C::data, &Data::pack>("data", "pack")
          .is_option("data.pack")
          .decides_the_data()
          .means("Pack several documents into a row. Each attends only to itself. Rows of .jsonl "
                 "are packed whole."),
      key<&C::data, &Data::truncate>("data", "truncate")
          .is_option("data.truncate")
          .decides_the_data()
          .means(
              "Cut .jsonl rows longer than `training.seq_len`. false: a longer row is an error."),
      key<&C::data, &Data::append_eos>("data", "append_eos")
          .is_option("data.append_eos")
          .decides_the_data()
          .means("Add the tokenizer's end token to rows of `text` and to text files that do not "
                 "end with it."),
      key<&C::data, &Data::chat_template>("data", "chat_template")
          .is_option("data.chat_template")
          .decides_the_data()
          .means("How messages become text. `auto`: chosen by the tokenizer's special tokens or "
                 "the model's family, else data is refused."),
      key<&C::data, &Data::assistant_only_loss>("data", "assistant_only_loss")
          .decides_the_data()
          .means("The same as `train_on = [\"assistant\"]`."),
      train_on_key()
          .is_option("data.train_on")
          .decides_the_data()
          .means(
              "Messages that the loss counts. `[\"assistant\"]`: the assistant's. `\"last\"`: only "
              "the assistant's last one. `\"all\"`: all, and prompts, too. Empty: all messages, "
              "and completions without their prompts."),
      key<&C::data, &Data::fields>("data", "fields")
          .is_option("data.fields")
          .decides_the_data()
          .means("Other names of fields: `{ instruction = \"question\" }` reads `question` as the "
                 "instruction."),
      key<&C::data, &Data::weights>("data", "weights")
          .is_option("data.weights")
          .decides_the_data()
          .above(0)
          .means("Share of each entry of `data.files`. Entries may differ in format. Empty: shares "
                 "by length."),

      key<&C::training, &Training::steps>("training", "steps")
          .between(1, kMaxSteps)
          .means("Optimizer steps."),
      key<&C::training, &Training::epochs>("training", "epochs")
          .is_option("epochs")
          .between(0, 1e6)
          .means("Instead of `training.steps`: how often every row is read, such as 0.5 or 3. The "
                 "log has the steps. 0: `training.steps`."),
      key<&C::training, &Training::local_batch_size>("training", "local_batch_size")
          .decides_the_numbers()
          .between(1, kMaxCount)
          .means("Sequences per replica and step, a multiple of `training.microbatch_size`."),
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
          .means("Seed of initialisation, shuffling and dropout."),
      key<&C::training, &Training::threads_per_rank>("training", "threads_per_rank")
          .decides_the_numbers()
          .between(0, 1024)
          .means("Threads of each rank's operators. 0: cores / ranks on this machine. Only equal "
                 "values promise equal bits."),
      key<&C::training, &Training::device>("training", "device")
          .means("Where ranks compute. `cuda`: the n-th rank of a machine uses its n-th GPU. "
                 "`auto`: `cuda` if the machine has as many GPUs as ranks, else `cpu` "
                 "(docs/gpus.md). Results of CPU and GPU differ by rounding."),
      key<&C::training, &Training::trainable>("training", "trainable")
          .decides_the_numbers()
          .is_option("trainable")
          .means("Name patterns of the parameters to train. Others are frozen, without gradients, "
                 "optimizer state or own backward work. A tied parameter matches by any name."),
      key<&C::training, &Training::global_batch_size>("training", "global_batch_size")
          .decides_the_numbers()
          .between(0, kMaxCount)
          .means("Sequences per step over all replicas, instead of `training.local_batch_size`. A "
                 "multiple of `parallelism.data_parallel_degree` x `training.microbatch_size`. 0: "
                 "not set."),
      key<&C::training, &Training::layout_free>("training", "layout_free")
          .decides_the_numbers()
          .between(0, 65536)
          .means("N: every layout whose degrees divide N computes the same bits. Sets "
                 "`parallelism.data_parallel_shards` and the tensor slices to the largest divisors "
                 "of N that the batch and the model's heads allow. 0: off, and bits depend on the "
                 "degrees."),
      key<&C::training, &Training::mixed_precision>("training", "mixed_precision")
          .decides_the_numbers()
          .means("`bfloat16`: autocast computes matrix products in bfloat16. Weights, sums, norms "
                 "and the loss keep their type."),
      unbuilt_key("training", "master_weights",
                  [](const C&) -> Value { return std::string("auto"); })
          .decides_the_numbers()
          .means("Float32 copies of half-precision weights in the optimizer."),
      unbuilt_key("training", "deterministic",
                  [](const C&) -> Value { return std::string("auto"); }, {Kind::kBool})
          .means("GPU operators that repeat their bits."),
      unbuilt_key("training", "float32_matmul",
                  [](const C&) -> Value { return std::string("highest"); })
          .decides_the_numbers()
          .means("Precision of float32 products on GPUs."),
      activation_checkpoint_key()
          .one_of({"none", "full"})
          .not_empty()
          .is_option("activation_checkpoint")
          .means("Layers that keep only their inputs and run again in the backward: `none`, `full` "
                 "(every block) or a list of names."),
      key<&C::training, &Training::fused>("training", "fused")
          .decides_the_numbers()
          .is_option("fused")
          .means("`auto`: fused operators for blocks, norms, head and loss where they exist "
                 "(docs/fused.md). `off`: LibTorch's operators. Results differ by rounding."),
      key<&C::training, &Training::loss_chunks>("training", "loss_chunks")
          .decides_the_numbers()
          .means("Compute head and loss by blocks of the vocabulary, so memory never holds all "
                 "logits. The head takes up to a third longer. `auto`: from a vocabulary of 32768. "
                 "Without fused operators the logits are whole."),

      key<&C::optimizer, &Optimizer::kind>("optimizer", "name")
          .decides_the_numbers()
          .is_option("kind")
          .one_of({"AdamW", "SGD"})
          .means("Update rule."),
      key<&C::optimizer, &Optimizer::lr>("optimizer", "lr")
          .decides_the_numbers()
          .is_option("lr")
          .at_least(0)
          .means("Learning rate, before `lr_scheduler`."),
      betas_key().decides_the_numbers().at_least(0).below(1).means(
          "Decay rates of AdamW's two moments."),
      key<&C::optimizer, &Optimizer::eps>("optimizer", "eps")
          .decides_the_numbers()
          .at_least(0)
          .means("Added to AdamW's denominator."),
      key<&C::optimizer, &Optimizer::weight_decay>("optimizer", "weight_decay")
          .decides_the_numbers()
          .at_least(0)
          .means("Weight decay of all parameters except `optimizer.no_decay`. AdamW decouples it, "
                 "SGD adds it to the gradient."),
      no_decay_key()
          .decides_the_numbers()
          .is_option("no_decay")
          .one_of({kNormsAndBiases})
          .means("Parameters without weight decay: `norms-and-biases` (those with one dimension), "
                 "or name patterns such as `*.bias`, each of which must match."),
      key<&C::optimizer, &Optimizer::max_norm>("optimizer", "max_norm")
          .decides_the_numbers()
          .is_option("max_norm")
          .at_least(0)
          .means("Clips the gradient norm over all stages. 0: the norm is only reported."),
      key<&C::optimizer, &Optimizer::momentum>("optimizer", "momentum")
          .decides_the_numbers()
          .is_option("momentum")
          .at_least(0)
          .below(1)
          .means("Momentum of SGD, as in torch.optim.SGD."),
      unbuilt_key("optimizer", "state", [](const C&) -> Value { return std::string("float32"); })
          .decides_the_numbers()
          .means("Type of AdamW's moments."),

      key<&C::lr_scheduler, &LearningRate::warmup_steps>("lr_scheduler", "warmup_steps")
          .decides_the_numbers()
          .between(0, kMaxSteps)
          .means("Up to this step, step k has the rate `lr * k / warmup_steps`."),
      key<&C::lr_scheduler, &LearningRate::warmup_ratio>("lr_scheduler", "warmup_ratio")
          .decides_the_numbers()
          .between(0, 1)
          .means("Instead of `lr_scheduler.warmup_steps`: the share of all steps, rounded up."),
      key<&C::lr_scheduler, &LearningRate::decay>("lr_scheduler", "decay")
          .decides_the_numbers()
          .means("Decay from the end of the warm-up to the last step."),
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
          .means("Name of the schedule, in any case (`sluice schedule --help`). `auto`: the "
                 "fastest prediction within `parallelism.device_memory` for any number of stages "
                 "per rank, by default with `parallelism.partition` `measured`."),
      key<&C::parallelism, &Parallel::schedule_csv>("parallelism", "pipeline_parallel_schedule_csv")
          .path()
          .decides_the_split()
          .is_option("schedule.own")
          .means("Schedule file in torch's CSV form. It overrides the name."),
      stage_to_rank_key()
          .decides_the_split()
          .is_option("stage_to_rank")
          .one_of({"auto", "loop", "v"})
          .between(0, 65535)
          .means("`auto`: the schedule's placement. `loop`: stage s on rank s mod P. `v`: along "
                 "the ranks and back. Otherwise a list with the rank of every stage."),
      partition_convention_key()
          .decides_the_split()
          .is_option("partition_convention")
          .means("Library whose rules and names the split follows."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::split_points>(
          "parallelism", "pipeline_parallel_split_points")
          .decides_the_split()
          .means("Cut before these layers. In the `torchtitan` conventions they override "
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
          .means("Layers per stage. 0: an even split into as many stages as the schedule needs."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::stages_per_rank>(
          "parallelism", "pipeline_parallel_stages_per_rank")
          .decides_the_split()
          .between(0, kMaxCount)
          .means("Virtual stages per rank. 0: as many as the schedule needs."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::rounding>(
          "parallelism", "round_virtual_stages_to_pp_multiple")
          .decides_the_split()
          .means("Rounds the number of stages to a multiple of the ranks. Empty: any other number "
                 "is an error."),
      first_stage_weight_key()
          .decides_the_split()
          .between(0, kMaxCount)
          .means("Layers that the embedding counts as in the split. Conventions torchtitan and "
                 "torchtitan-current default to 1."),
      last_stage_weight_key()
          .decides_the_split()
          .between(0, kMaxCount)
          .means("Layers that norm and head together count as, with the same default."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::partition, &Split::modules>(
          "parallelism", "module_fqns_per_model_part")
          .decides_the_split()
          .means("Module names of every stage."),
      scale_grads_key()
          .decides_the_numbers()
          .between(kLeastDivisor, kMostDivisor)
          .means("Loss that the gradient belongs to. `tokens`: the mean over the counted tokens of "
                 "the step. `microbatches` or true: the mean of the microbatches' mean losses. "
                 "`none` or false: the sum of these means. A number d: that sum / d."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel,
          &Replicas::per_microbatch>("parallelism", "reduce_grad_per_microbatch")
          .decides_the_numbers()
          .is_option("data_parallel.per_microbatch")
          .means("Sum gradients over the replicas after every microbatch instead of once a step. "
                 "Bits then depend on the degree. Not with `parallelism.zero3`."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::degree>(
          "parallelism", "data_parallel_degree")
          .decides_the_numbers()
          .is_option("data_parallel.degree")
          .between(1, 65536)
          .means(
              "Replicas of the pipeline, each with its own rows. Multiplies the number of ranks."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::shards>(
          "parallelism", "data_parallel_shards")
          .decides_the_numbers()
          .is_option("data_parallel.shards")
          .between(0, 65536)
          .means("Partial sums of the gradients, on which the bits depend. A multiple of "
                 "`parallelism.data_parallel_degree` that divides the microbatches of all "
                 "replicas. 0: the degree."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::zero1>(
          "parallelism", "zero1")
          .is_option("data_parallel.zero1")
          .means("Shard the optimizer state over the replicas (ZeRO-1)."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::zero3>(
          "parallelism", "zero3")
          .is_option("data_parallel.zero3")
          .means("Also shard the parameters, and gather them when a stage needs them (ZeRO-3). "
                 "Includes `parallelism.zero1`."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::data_parallel, &Replicas::reduction>(
          "parallelism", "reduction")
          .decides_the_numbers()
          .is_option("data_parallel.reduction")
          .means("`exact`: the same bits for every degree that divides the shards. `fast`: the "
                 "transport's all-reduce, which adds in any order."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::rank_order>("parallelism", "rank_order")
          .is_option("rank_order")
          .means("Numbering of the ranks: pp, dp, cp and tp in any order, the fastest axis last. "
                 "cp and tp are added to `pp,dp` and `dp,pp`. `dp,pp` numbers the ranks of a "
                 "pipeline consecutively, `pp,dp` the ranks of a stage."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::tensor_parallel, &Shares::degree>(
          "parallelism", "tensor_parallel_degree")
          .decides_the_numbers()
          .is_option("tensor_parallel.degree")
          .between(1, 65536)
          .means("Ranks that share every layer. Multiplies the number of ranks. A power of two "
                 "that divides `parallelism.tensor_parallel_slices`, or that number itself. Not "
                 "yet for OLMo 2, OLMoE, adapters and graphs."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::tensor_parallel, &Shares::slices>(
          "parallelism", "tensor_parallel_slices")
          .decides_the_numbers()
          .is_option("tensor_parallel.slices")
          .between(0, 65536)
          .means("Slices of each layer, on which the bits depend. A divisor of the key-value "
                 "heads. 0: the degree, so that nothing is computed in pieces."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::tensor_parallel, &Shares::sequence>(
          "parallelism", "sequence_parallel")
          .means("Keep only a rank's own rows between divided layers. Changes no bit."),
      unbuilt_key("parallelism", "context_parallel_degree",
                  [](const C&) -> Value { return std::int64_t{1}; })
          .means("Ranks that share the tokens of every row."),
      unbuilt_key("parallelism", "context_parallel_slices",
                  [](const C&) -> Value { return std::int64_t{0}; })
          .means("Slices of each row. 0: the degree."),
      unbuilt_key("parallelism", "context_parallel_method",
                  [](const C&) -> Value { return std::string("alltoall"); })
          .means("How ranks that share rows exchange keys and values."),
      key<&C::parallelism, &Parallel::pipeline, &Pipeline::expert_parallel,
          &ExpertParallel::degree>("parallelism", "expert_parallel_degree")
          .decides_the_numbers()
          .is_option("expert_parallel.degree")
          .between(1, 65536)
          .means("Neighboring replicas that share the experts of each layer and exchange tokens "
                 "(Mixtral, Qwen3-MoE, OLMoE). Divides the experts and "
                 "`parallelism.data_parallel_degree`. Not yet with tensor slices, other shards "
                 "or reductions, and adapters."),
      unbuilt_key("parallelism", "expert_parallel_sources",
                  [](const C&) -> Value { return std::int64_t{0}; })
          .means(
              "0: an expert adds up the tokens of all ranks of a microbatch together. 1: of each "
              "rank separately, with the bits of degree 1."),
      key<&C::parallelism, &Parallel::transport>("parallelism", "transport")
          .means("`threads`: all ranks in one process. `gloo`: between processes, over TCP. "
                 "`nccl`: between processes of one GPU each. `auto`: `nccl` where it can be used, "
                 "else `gloo`. Ranks of one process exchange as threads, but with `gloo` and no "
                 "launcher each has its own connection."),
      key<&C::parallelism, &Parallel::partition>("parallelism", "partition")
          .decides_the_split()
          .means("What the split balances: the number of layers (`even`), their computed `cost`, "
                 "or their time `measured` here. Keys that set cuts need `even`."),
      key<&C::parallelism, &Parallel::costs>("parallelism", "costs")
          .decides_the_split()
          .path()
          .means("File of `sluice plan --measure`, or of costs measured elsewhere. Empty: measured "
                 "at the start "
                 "if needed."),
      device_memory_key()
          .is_option("memory_per_rank")
          .means("Memory limit of a rank, such as `\"80GB\"` or `\"640MiB\"`. Splits and schedules "
                 "that need more are not chosen, and a run that needs more is refused. Empty: the "
                 "machine's memory / its ranks, only for choices."),

      key<&C::validation, &Validation::files>("validation", "files")
          .path()
          .not_empty()
          .means(
              "Files for the validation loss, as `data.files`, read in file order. Empty: none."),
      key<&C::validation, &Validation::split>("validation", "split")
          .decides_the_data()
          .is_option("held_out")
          .at_least(0)
          .at_most(kMaxSteps)
          .means("Instead of `validation.files`: training rows to hold out, a share below 1 or a "
                 "number, chosen by `training.seed` and content. 0: none."),
      validation_interval_key()
          .between(0, kMaxSteps)
          .means("Steps (or `\"0.5 epochs\"`) between validation losses and continuations of "
                 "`validation.prompts`. 0: never."),
      key<&C::validation, &Validation::steps>("validation", "steps")
          .between(0, kMaxSteps)
          .means("Batches per validation, of `training.local_batch_size` sequences each. 0: all of "
                 "the files."),
      key<&C::validation, &Validation::prompts>("validation", "prompts")
          .not_empty()
          .means("Texts that the model continues with the likeliest tokens, in the log and "
                 "`metrics.jsonl`. They need no `validation.files`."),
      key<&C::validation, &Validation::prompt_tokens>("validation", "prompt_tokens")
          .between(1, 1 << 20)
          .means("Maximum of new tokens for each prompt."),

      key<&C::comm, &Comm::init_timeout_seconds>("comm", "init_timeout_seconds")
          .above(0)
          .at_most(kMaxSeconds)
          .means("How long processes wait for each other at the start."),
      key<&C::comm, &Comm::train_timeout_seconds>("comm", "train_timeout_seconds")
          .above(0)
          .at_most(kMaxSeconds)
          .means("How long a rank waits for another process's message, and the run for a hanging "
                 "rank."),
      key<&C::comm, &Comm::heartbeat_seconds>("comm", "heartbeat_seconds")
          .at_least(0.1)
          .at_most(kMaxSeconds)
          .means("A process that is silent for longer counts as lost."),

      key<&C::checkpoint, &Checkpoint::folder>("checkpoint", "folder")
          .path()
          .not_empty()
          .means("Folder of the checkpoints `<folder>/step-XXXXXXXX/`, each a Hugging Face "
                 "directory with optimizer state. The last one is the result of the run."),
      checkpoint_interval_key()
          .between(0, kMaxSteps)
          .means("Steps (or `\"1 epoch\"`) between checkpoints. 0: only at the end."),
      key<&C::checkpoint, &Checkpoint::keep_latest_k>("checkpoint", "keep_latest_k")
          .between(0, kMaxCount)
          .means("Newest checkpoints to keep. Each commit removes older ones of the run. 0: keep "
                 "all."),
      key<&C::checkpoint, &Checkpoint::keep_every>("checkpoint", "keep_every")
          .between(0, kMaxSteps)
          .means("Keep checkpoints of steps that are multiples of this. 0: none."),
      resume_key().path().not_empty().at_least(0).means(
          "`auto`: resume from the newest checkpoint in `checkpoint.folder` that verifies, else "
          "start afresh. `none`: start afresh. A number: resume from the folder's checkpoint of "
          "that step. Otherwise the path of a checkpoint."),
      key<&C::checkpoint, &Checkpoint::async>("checkpoint", "async")
          .means("Write checkpoints while training continues. The last one is complete before the "
                 "run ends."),
      key<&C::checkpoint, &Checkpoint::commit>("checkpoint", "commit")
          .means("How a complete checkpoint appears: by `rename`, or by `marker` where renames are "
                 "not atomic. `marker` writes manifest.json last and never replaces a committed "
                 "step."),
      key<&C::checkpoint, &Checkpoint::on_save_error>("checkpoint", "on_save_error")
          .means("If a checkpoint cannot be written, `stop` ends the run and `continue` warns, "
                 "except for the last checkpoint."),
      key<&C::checkpoint, &Checkpoint::allow>("checkpoint", "allow")
          .one_of({"data", "model"})
          .means("What may differ from the checkpoint on resume. Data and model are compared by "
                 "size and content, never by path or time."),

      key<&C::metrics, &Metrics::folder>("metrics", "folder")
          .path()
          .not_empty()
          .means("Folder of metrics.jsonl."),
      key<&C::metrics, &Metrics::log_freq>("metrics", "log_freq")
          .between(1, kMaxSteps)
          .means("Steps between log lines."),
      key<&C::metrics, &Metrics::log_level>("metrics", "log_level")
          .means("Lowest level that is logged. `debug` adds a line per stage."),
      key<&C::metrics, &Metrics::parameter_norms>("metrics", "parameter_norms")
          .means("Add the gradient norm of every parameter to metrics.jsonl."),
      key<&C::metrics, &Metrics::report>("metrics", "report")
          .means(
              "Write report.html, a page about the run, at the end, also after a failure or stop."),
      key<&C::metrics, &Metrics::enable_tensorboard>("metrics", "enable_tensorboard")
          .means("Also write an event file for TensorBoard at the end."),
  };
}

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = make_table();
  return table;
}

}  // namespace sluice::detail
