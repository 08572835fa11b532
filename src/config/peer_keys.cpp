#include "config/peer_keys.h"

#include <algorithm>

namespace sluice::detail {
namespace {

constexpr const char* kNumMicrobatches = "`training.local_batch_size` / `training.microbatch_size`";
constexpr const char* kNotBuilt = "not built yet";
constexpr const char* kNone = "nothing (left out on purpose)";
constexpr const char* kNotTraced = "nothing (no model is traced)";
constexpr const char* kNotPatched = "nothing (no forward is patched)";
constexpr const char* kMetrics = "`metrics.folder` (metrics.jsonl is always written)";
constexpr const char* kFiles = "`data.files`";
constexpr const char* kRecorded = "nothing (the last instructions are always recorded)";
constexpr const char* kEnds = "`parallelism.module_fqns_per_model_part`";

std::vector<PeerKey> make_table() {
  return {
      {"`sluice schedule`", "microbatches", kNumMicrobatches},

      {"torch", "n_microbatches", kNumMicrobatches},

      {"torchtitan", "job.dump_folder", "`checkpoint.folder` and `metrics.folder`"},
      {"torchtitan", "job.print_args", "nothing (`sluice config show` prints them)"},
      {"torchtitan", "job.*", "nothing (the job is the file)"},
      {"torchtitan", "model.name", "`model.path` or `model.config`"},
      {"torchtitan", "model.flavor", "`model.path` or `model.config`"},
      {"torchtitan", "model.hf_assets_path", "`model.path`"},
      {"torchtitan", "model.tokenizer_path", "`data.tokenizer`"},
      {"torchtitan", "model.converters", kNone},
      {"torchtitan", "model.print_after_conversion", kNone},
      {"torchtitan", "optimizer.beta1", "`optimizer.betas`"},
      {"torchtitan", "optimizer.beta2", "`optimizer.betas`"},
      {"torchtitan", "optimizer.implementation", "`training.fused`"},
      {"torchtitan", "optimizer.fused", "`training.fused`"},
      {"torchtitan", "optimizer.early_step_in_backward", kNone},
      {"torchtitan", "lr_scheduler.decay_type", "`lr_scheduler.decay`"},
      {"torchtitan", "lr_scheduler.decay_ratio", "nothing (the decay begins after the warm-up)"},
      {"torchtitan", "lr_scheduler.lr_min", "`lr_scheduler.min_lr_factor`"},
      {"torchtitan", "training.batch_size", "`training.local_batch_size`"},
      {"torchtitan", "training.dataset", kFiles},
      {"torchtitan", "training.dataset_path", kFiles},
      {"torchtitan", "mixed_precision_param", "`training.mixed_precision`"},
      {"torchtitan", "mixed_precision_reduce", "nothing (gradients add up in float32)"},
      {"torchtitan", "enable_cpu_offload", kNone},
      {"torchtitan", "training.compile", kNone},
      {"torchtitan", "compile.*", kNone},
      {"torchtitan", "gc_freq", "nothing (no Python)"},
      {"torchtitan", "gc_debug", "nothing (no Python)"},
      {"torchtitan", "deterministic", "nothing (every run is)"},
      {"torchtitan", "pipeline_parallel_microbatch_size", "`training.microbatch_size`"},
      {"torchtitan", "pipeline_parallel_microbatches", kNumMicrobatches},
      {"torchtitan", "pipeline_parallel_first_stage_less_layers",
       "`parallelism.first_stage_weight`"},
      {"torchtitan", "pipeline_parallel_last_stage_less_layers", "`parallelism.last_stage_weight`"},
      {"torchtitan", "input_weight", "`parallelism.first_stage_weight`"},
      {"torchtitan", "output_weight", "`parallelism.last_stage_weight`"},
      {"torchtitan", "data_parallel_replicate_degree", "`parallelism.data_parallel_degree`"},
      {"torchtitan", "data_parallel_shard_degree",
       "`parallelism.data_parallel_degree` with `parallelism.zero3`"},
      {"torchtitan", "fsdp_reshard_after_forward", "`parallelism.zero3`"},
      {"torchtitan", "tensor_parallel_degree", kNotBuilt},
      {"torchtitan", "enable_async_tensor_parallel", kNotBuilt},
      {"torchtitan", "disable_loss_parallel", kNotBuilt},
      {"torchtitan", "enable_loss_parallel", kNotBuilt},
      {"torchtitan", "context_parallel_degree", kNotBuilt},
      {"torchtitan", "context_parallel_rotate_method", kNotBuilt},
      {"torchtitan", "expert_parallel_degree", kNotBuilt},
      {"torchtitan", "enable_compiled_autograd", kNone},
      {"torchtitan", "checkpoint.enable", "`checkpoint.interval`"},
      {"torchtitan", "checkpoint.enable_checkpoint", "`checkpoint.interval`"},
      {"torchtitan", "checkpoint.initial_load_path",
       "`model.path` for weights, `checkpoint.resume` for all"},
      {"torchtitan", "checkpoint.initial_load_model_only",
       "`model.path` for weights, `checkpoint.resume` for all"},
      {"torchtitan", "checkpoint.load_step", "`checkpoint.resume`"},
      {"torchtitan", "checkpoint.async_mode", "`checkpoint.async`"},
      {"torchtitan", "checkpoint.last_save_model_only",
       "nothing (the final weights are a directory of their own)"},
      {"torchtitan", "checkpoint.last_save_in_hf",
       "nothing (the final weights are a Hugging Face directory)"},
      {"torchtitan", "checkpoint.model_weights_only",
       "nothing (the final weights are a directory of their own)"},
      {"torchtitan", "checkpoint.export_dtype", "`model.dtype`"},
      {"torchtitan", "checkpoint.create_seed_checkpoint",
       "nothing (initial weights are the same for every layout)"},
      {"torchtitan", "checkpoint.enable_first_step_checkpoint", kNone},
      {"torchtitan", "checkpoint.exclude_from_loading", kNone},
      {"torchtitan", "checkpoint.interval_type", "`checkpoint.interval` (in steps)"},
      {"torchtitan", "activation_checkpoint.*", "`training.activation_checkpoint`"},
      {"torchtitan", "metrics.enable_tensorboard", kMetrics},
      {"torchtitan", "metrics.save_tb_folder", kMetrics},
      {"torchtitan", "metrics.enable_wandb", kMetrics},
      {"torchtitan", "metrics.save_for_all_ranks", kMetrics},
      {"torchtitan", "metrics.rank_0_only", kMetrics},
      {"torchtitan", "metrics.disable_color_printing", "the variable NO_COLOR"},
      {"torchtitan", "metrics.enable_color_printing", "the variable NO_COLOR"},
      {"torchtitan", "profiling.*", kNotBuilt},
      {"torchtitan", "comm.trace_buf_size", kRecorded},
      {"torchtitan", "comm.save_traces_folder", kRecorded},
      {"torchtitan", "validation.enabled", "`validation.interval`"},
      {"torchtitan", "validation.freq", "`validation.interval`"},
      {"torchtitan", "validation.dataset", "`validation.files`"},
      {"torchtitan", "validation.dataset_path", "`validation.files`"},
      {"torchtitan", "memory_estimation.*", "nothing (`sluice plan` predicts the memory)"},
      {"torchtitan", "float8.*", kNone},
      {"torchtitan", "mx.*", kNone},
      {"torchtitan", "fault_tolerance.*", kNone},
      {"torchtitan", "experimental.*", kNone},

      {"NeMo AutoModel", "distributed.strategy",
       "`parallelism.data_parallel_degree`, `parallelism.zero1`, `parallelism.zero3`"},
      {"NeMo AutoModel", "distributed.pipeline", "the keys of [parallelism]"},
      {"NeMo AutoModel", "distributed.*", "the keys of [parallelism]"},
      {"NeMo AutoModel", "autopipeline.*", "the keys of [parallelism]"},
      {"NeMo AutoModel", "pp_size", "`parallelism.pipeline_parallel_degree`"},
      {"NeMo AutoModel", "dp_size", "`parallelism.data_parallel_degree`"},
      {"NeMo AutoModel", "dp_replicate_size", "`parallelism.data_parallel_degree`"},
      {"NeMo AutoModel", "tp_size", kNotBuilt},
      {"NeMo AutoModel", "cp_size", kNotBuilt},
      {"NeMo AutoModel", "ep_size", kNotBuilt},
      {"NeMo AutoModel", "sequence_parallel", kNotBuilt},
      {"NeMo AutoModel", "defer_fsdp_grad_sync", "`parallelism.reduce_grad_per_microbatch`"},
      {"NeMo AutoModel", "activation_checkpointing", "`training.activation_checkpoint`"},
      {"NeMo AutoModel", "pp_schedule", "`parallelism.pipeline_parallel_schedule`"},
      {"NeMo AutoModel", "pp_schedule_csv", "`parallelism.pipeline_parallel_schedule_csv`"},
      {"NeMo AutoModel", "pp_microbatch_size", "`training.microbatch_size`"},
      {"NeMo AutoModel", "pp_batch_size", "`training.local_batch_size`"},
      {"NeMo AutoModel", "pp_seq_len", "`training.seq_len`"},
      {"NeMo AutoModel", "layers_per_stage", "`parallelism.pipeline_parallel_layers_per_stage`"},
      {"NeMo AutoModel", "round_to_pp_multiple",
       "`parallelism.round_virtual_stages_to_pp_multiple`"},
      {"NeMo AutoModel", "module_names_per_stage", "`parallelism.module_fqns_per_model_part`"},
      {"NeMo AutoModel", "patch_inner_model", kNotPatched},
      {"NeMo AutoModel", "patch_causal_lm_model", kNotPatched},
      {"NeMo AutoModel", "patch_stage_backward_maybe_with_nosync",
       "`parallelism.reduce_grad_per_microbatch`"},
      {"NeMo AutoModel", "scale_grads_in_schedule", "`parallelism.scale_grads`"},
      {"NeMo AutoModel", "pp_recv_buffer_pool", "nothing (a message is kept until its last use)"},
      {"NeMo AutoModel", "pp_recv_buffer_pool_slack",
       "nothing (a message is kept until its last use)"},
      {"NeMo AutoModel", "dataloader.batch_size", "`training.local_batch_size`"},
      {"NeMo AutoModel", "step_scheduler.ckpt_every_steps", "`checkpoint.interval`"},
      {"NeMo AutoModel", "step_scheduler.val_every_steps", "`validation.interval`"},
      {"NeMo AutoModel", "step_scheduler.gc_every_steps", "nothing (no Python)"},
      {"NeMo AutoModel", "step_scheduler.max_steps", "`training.steps`"},
      {"NeMo AutoModel", "step_scheduler.num_epochs", "`training.steps`"},
      {"NeMo AutoModel", "checkpoint.enabled", "`checkpoint.interval`"},
      {"NeMo AutoModel", "checkpoint.checkpoint_dir", "`checkpoint.folder`"},
      {"NeMo AutoModel", "peft.target_modules", "`lora.target`"},
      {"NeMo AutoModel", "peft.*", "the keys of [lora]"},
      {"NeMo AutoModel", "dist_env.backend", "`parallelism.transport`"},
      {"NeMo AutoModel", "dist_env.timeout_minutes", "`comm.train_timeout_seconds`"},

      {"NeuronX", "num_microbatches", kNumMicrobatches},
      {"NeuronX", "pipeline_parallel_size", "`parallelism.pipeline_parallel_degree`"},
      {"NeuronX", "tensor_parallel_size", kNotBuilt},
      {"NeuronX", "virtual_pipeline_size", "`parallelism.pipeline_parallel_stages_per_rank`"},
      {"NeuronX", "auto_partition",
       "`parallelism.partition_convention` = \"neuronx\" without "
       "`parallelism.pipeline_parallel_cuts`"},
      {"NeuronX", "pipeline_cuts", "`parallelism.pipeline_parallel_cuts`"},
      {"NeuronX", "manual_pp_partition", "`parallelism.module_fqns_per_model_part`"},
      {"NeuronX", "use_zero1_optimizer", "`parallelism.zero1`"},
      {"NeuronX", "param_init_fn", "`model.config` (weights are initialised by the model's rules)"},
      {"NeuronX", "output_loss_value_spec",
       "nothing (the loss is that of a causal language model)"},
      {"NeuronX", "return_mb_loss", "nothing (the loss is one number a step)"},
      {"NeuronX", "return_loss_on_cpu", "nothing (it always is)"},
      {"NeuronX", "broadcast_and_average_loss", "nothing (every rank has the loss)"},
      {"NeuronX", "deallocate_pipeline_outputs", "nothing (a stage never keeps what it has sent)"},
      {"NeuronX", "input_names", "nothing (input_ids and labels)"},
      {"NeuronX", "leaf_module_cls", kNotTraced},
      {"NeuronX", "autowrap_functions", kNotTraced},
      {"NeuronX", "autowrap_modules", kNotTraced},
      {"NeuronX", "autowrap_obj_methods", kNotTraced},
      {"NeuronX", "tracer_cls", kNotTraced},

      {"Megatron", "micro_batch_size", "`training.microbatch_size`"},
      {"Megatron", "seq_length", "`training.seq_len`"},
      {"Megatron", "train_iters", "`training.steps`"},
      {"Megatron", "pipeline_model_parallel_size", "`parallelism.pipeline_parallel_degree`"},
      {"Megatron", "tensor_model_parallel_size", kNotBuilt},
      {"Megatron", "context_parallel_size", kNotBuilt},
      {"Megatron", "expert_model_parallel_size", kNotBuilt},
      {"Megatron", "virtual_pp_size", "`parallelism.pipeline_parallel_stages_per_rank`"},
      {"Megatron", "virtual_pipeline_model_parallel_size",
       "`parallelism.pipeline_parallel_stages_per_rank`"},
      {"Megatron", "num_virtual_stages_per_pipeline_rank",
       "`parallelism.pipeline_parallel_stages_per_rank`"},
      {"Megatron", "num_layers_per_virtual_pipeline_stage",
       "`parallelism.pipeline_parallel_layers_per_stage`"},
      {"Megatron", "num_layers_in_first_pipeline_stage", kEnds},
      {"Megatron", "num_layers_in_last_pipeline_stage", kEnds},
      {"Megatron", "decoder_first_pipeline_num_layers", kEnds},
      {"Megatron", "decoder_last_pipeline_num_layers", kEnds},
      {"Megatron", "pipeline_model_parallel_layout", kEnds},
      {"Megatron", "account_for_embedding_in_pipeline_split",
       "`parallelism.first_stage_weight` = 1"},
      {"Megatron", "account_for_loss_in_pipeline_split", "`parallelism.last_stage_weight` = 1"},
      {"Megatron", "use_distributed_optimizer", "`parallelism.zero1`"},
      {"Megatron", "recompute_granularity", "`training.activation_checkpoint`"},
      {"Megatron", "adam_beta1", "`optimizer.betas`"},
      {"Megatron", "adam_beta2", "`optimizer.betas`"},
      {"Megatron", "clip_grad", "`optimizer.max_norm`"},
      {"Megatron", "lr_decay_style", "`lr_scheduler.decay`"},
      {"Megatron", "lr_warmup_iters", "`lr_scheduler.warmup_steps`"},
      {"Megatron", "min_lr", "`lr_scheduler.min_lr_factor`"},
      {"Megatron", "log_interval", "`metrics.log_freq`"},
      {"Megatron", "save_interval", "`checkpoint.interval`"},
      {"Megatron", "eval_interval", "`validation.interval`"},
      {"Megatron", "eval_iters", "`validation.steps`"},

      {"DeepSpeed", "train_batch_size", "`training.global_batch_size`"},
      {"DeepSpeed", "train_micro_batch_size_per_gpu", "`training.microbatch_size`"},
      {"DeepSpeed", "gradient_accumulation_steps", kNumMicrobatches},
      {"DeepSpeed", "gradient_clipping", "`optimizer.max_norm`"},
      {"DeepSpeed", "steps_per_print", "`metrics.log_freq`"},
      {"DeepSpeed", "partition_method", "`parallelism.partition`"},
      {"DeepSpeed", "zero_optimization.*",
       "`parallelism.zero1` (stage 1) or `parallelism.zero3` (stage 3)"},
      {"DeepSpeed", "bf16.*", "`training.mixed_precision`"},
      {"DeepSpeed", "fp16.*", kNone},
      {"DeepSpeed", "optimizer.type", "`optimizer.name`"},
      {"DeepSpeed", "optimizer.params", "the keys of [optimizer]"},
      {"DeepSpeed", "scheduler.*", "the keys of [lr_scheduler]"},
  };
}

}  // namespace

const std::vector<PeerKey>& peer_keys() {
  static const std::vector<PeerKey> table = make_table();
  return table;
}

const PeerKey* find_peer_key(std::string_view name) {
  std::string written(name);
  std::replace(written.begin(), written.end(), '-', '_');
  const std::vector<PeerKey>& table = peer_keys();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const PeerKey& peer) { return peer.name == written; });
  return found == table.end() ? nullptr : &*found;
}

std::string explain(const PeerKey& peer) {
  std::string text = std::string("it is ") + peer.library + "'s: here " + peer.here;
  std::erase(text, '`');
  return text;
}

}  // namespace sluice::detail
