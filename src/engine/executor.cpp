#include "engine/executor.h"
#include "device/transfers.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <map>
#include <utility>

#include "comm/group_watch.h"
#include "engine/auxiliary_losses.h"
#include "engine/compute_only_ops.h"
#include "engine/executor_checks.h"
#include "engine/expected_metas.h"
#include "engine/finite_check.h"
#include "engine/flight_recorder.h"
#include "engine/idle_works.h"
#include "engine/mailbox.h"
#include "engine/observer_list.h"
#include "engine/posts.h"
#include "engine/profiler_ranges.h"
#include "engine/rank_errors.h"
#include "engine/replicas.h"
#include "engine/row_facts.h"
#include "engine/step_losses.h"
#include "engine/step_timer.h"
#include "layer/call_place.h"
#include "layer/microbatch_lengths.h"
#include "layer/same_storage.h"
#include "layer/unfilled.h"

namespace sluice {
namespace {

using Tensors = std::vector<at::Tensor>;

// Returns the tensor without its graph. Keeps requires_grad, which the receiver reads.
at::Tensor without_graph(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  at::Tensor result = same_storage(tensor);
  result.set_requires_grad(tensor.requires_grad());
  return result;
}

}  // namespace

struct Executor::Impl final : GroupWatch {
  const Program& program;
  const int rank;                // in the mesh
  const int place;               // index of this rank's row in program.ranks
  const std::vector<int> peers;  // this pipeline's ranks, by place
  Transport& transport;
  StepOps& step_ops;
  const std::uint64_t seed;
  std::map<int, Stage*> stages;
  // by stage, set anew in every step
  std::map<int, bool> holds_early_weights;
  std::map<int, StageShards> shards;
  bool weights_are_checked = false;

  Mailbox mailbox;
  InputMetas input_metas;
  GradientMetas gradient_metas;
  StepLosses losses;
  AuxiliaryLosses auxiliary;
  FlightRecorder recorder;
  StepTimer timer;
  ProfilerRanges ranges;
  ObserverList observers;
  Posts posts;
  IdleWorks idle_works;

  const StepBatch* batch = nullptr;
  std::int64_t first_microbatch = 0;  // this replica's first microbatch
  // Input lengths per microbatch, set in its first forward.
  std::vector<detail::MicrobatchLengths> lengths;
  StepOps* ops = nullptr;
  Action running;  // the instruction or half of an overlapped pair
  bool computes_loss = false;

  Impl(const Program& the_program, int the_rank, const std::vector<Stage*>& the_stages,
       Transport& the_transport, StepOps& the_ops, LossFunction loss, ExecutorOptions options)
      : program(the_program),
        rank(the_rank),
        place(place_of(program.mesh, rank)),
        peers(program.mesh.group(rank, Axis::kPp)),
        transport(the_transport),
        step_ops(the_ops),
        seed(options.seed),
        input_metas(std::move(options.input_metas)),
        losses(std::move(loss), options.scale, num_replicas(program.mesh)),
        auxiliary(std::move(options.auxiliary)),
        recorder(options.flight_recorder_size),
        timer(recorder),
        observers({&recorder, &timer, &ranges}),
        posts(program, observers),
        idle_works(program, observers) {
    for (ExecutorObserver* observer : options.observers) observers.add(*observer);
    for (Stage* stage : the_stages) stages[stage->index()] = stage;
    check_layout(program, rank, stages, transport);
    for (const auto& [index, stage] : stages) {
      holds_early_weights[index] = must_hold_early_weights(row(), index);
      shards[index] = shards_of_stage(program, rank, index, options.num_shards);
    }
  }

  const std::vector<Action>& row() const { return program.ranks[place]; }
  int rank_of(int stage) const { return program.stage_map.rank_of(stage); }
  Stage& stage_at(int stage) { return *stages.at(stage); }
  // Returns the microbatch's number over all replicas, from which random numbers are seeded.
  std::int64_t number_of(int microbatch) const { return first_microbatch + microbatch; }
  Values inputs_of(int microbatch) const { return batch->microbatches.at(microbatch); }
  Values on_device(Values inputs) const {
    const at::Device device = transport.device();
    if (device.is_cpu()) return inputs;
    Values there;
    for (const auto& [name, tensor] : inputs)
      there.set(name, tensor.defined() ? to_device(tensor, device) : tensor);
    there.set_on_host(std::move(inputs));
    return there;
  }
  MessageTag tag(int stage, int microbatch) const { return {stage, microbatch, batch->step}; }

  void run(const StepBatch& step_batch, StepOps& end_of_step) {
    check(step_batch);
    batch = &step_batch;
    first_microbatch = step_batch.first_microbatch;
    lengths.assign(step_batch.microbatches.size(), {});
    ops = &end_of_step;
    losses.begin_step(step_batch);
    auxiliary.clear();
    for (auto& [index, stage] : stages) {
      stage->set_shards(shards.at(index));
      stage->defer_early_weights(holds_early_weights.at(index));
    }
    const GroupWatchScope watched(*this);
    observers.tell(&ExecutorObserver::begin_program, program, transport.rank());
    observers.tell(&ExecutorObserver::begin_step, step_batch.step);
    for (std::size_t i = 0; i < row().size(); ++i) run_instruction(static_cast<int>(i), row()[i]);
    for (auto& [index, stage] : stages) stage->end_step();
    observers.tell(&ExecutorObserver::end_step);
  }

  void check(const StepBatch& step_batch) {
    try {
      check_batch(program, rank, step_batch);
      if (!weights_are_checked) require_weights();
      weights_are_checked = true;
    } catch (const Error& error) {
      transport.abort({rank, error.kind(), error.what()});
      throw;
    }
  }

  // Parameters that zero3 shards have no memory on this rank, so their owners check them.
  void require_weights() const {
    for (const auto& [index, stage] : stages)
      require_none_unfilled(unfilled_parameters(stage->chunk()),
                            formatted("stage {}, before its first step", index),
                            "load weights, or call RankStages::draw_weights()");
  }

  void run_instruction(int index, const Action& action) {
    running = action;
    try {
      observers.tell(&ExecutorObserver::begin, index, action);
      if (!has_started_update(index)) {
        if (auto failure = transport.failure())
          throw Error(failure->kind, {.what = failure->message});
      }
      idle_works.end_used(action);
      // We cannot tell in advance whether the wait below blocks, so finish the idle work first.
      if (action.kind == ActionKind::kPartialNorm && posts.has_used(action))
        idle_works.run_until([] { return false; });
      posts.wait_for_used(action);
      execute(action);
      if (static_cast<std::size_t>(index) + 1 == row().size()) posts.wait_for_rest(action);
      observers.tell(&ExecutorObserver::end, index, action);
    } catch (...) {
      observers.tell(&ExecutorObserver::failed, index, action);
      fail(index, action);
    }
  }

  // Once a rank has started its weight update it finishes it, even if another rank fails. Otherwise
  // the weights would be from two steps.
  bool has_started_update(int index) const {
    return index > 0 && row()[static_cast<std::size_t>(index) - 1].kind == ActionKind::kUpdate;
  }

  void calls(const std::string& call) override {
    observers.tell(&ExecutorObserver::calling, running, call);
  }
  void waits(const std::string& call, std::function<std::vector<int>()> missing) override {
    observers.tell(&ExecutorObserver::waiting_for_members, running, call, missing);
  }
  void members_came() override { observers.tell(&ExecutorObserver::members_came, running); }

  void execute(const Action& action) {
    std::optional<detail::InstructionPlace> of_calls;
    std::optional<detail::MicrobatchScope> of_microbatch;
    if (is_compute(action.kind)) of_calls.emplace(to_text(action));
    if (is_compute(action.kind) && action.kind != ActionKind::kOverlap)
      of_microbatch.emplace(&lengths.at(static_cast<std::size_t>(action.microbatch)));
    // Autocast is for forwards and losses only. A backward computes in its forward's types.
    std::optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
    if (action.kind != ActionKind::kForward && action.kind != ActionKind::kOverlap)
      no_autocast.emplace(c10::autocast_dispatch_keyset);
    switch (action.kind) {
      case ActionKind::kForward:
        forward(action);
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        backward(action);
        break;
      case ActionKind::kBackwardWeight:
        stage_at(action.stage).backward_weight(number_of(action.microbatch));
        break;
      case ActionKind::kOverlap:
        execute(running = action.overlap_forward());
        execute(running = action.overlap_backward());
        break;
      case ActionKind::kSendForward:
        send(ChannelKind::kActivation, action);
        break;
      case ActionKind::kSendBackward:
        send(ChannelKind::kGradient, action);
        break;
      case ActionKind::kRecvForward:
        post_receive(ChannelKind::kActivation, action);
        break;
      case ActionKind::kRecvBackward:
        post_receive(ChannelKind::kGradient, action);
        break;
      case ActionKind::kUnshard:
        posts.add(action, ops->unshard(action.stage));
        break;
      case ActionKind::kReshard:
        stage_at(action.stage).drop_derived();
        ops->reshard(action.stage);
        break;
      case ActionKind::kReduceGrad:
        posts.add(action,
                  ops->reduce_gradients(action.stage, action.microbatch < 0
                                                          ? std::nullopt
                                                          : std::optional(action.microbatch)));
        break;
      case ActionKind::kReduceTied:
        posts.add(action, ops->reduce_tied(action.group));
        break;
      case ActionKind::kReduceLoss:
        posts.add(action, ops->reduce_loss());
        break;
      case ActionKind::kGatherOutputs:
        posts.add(action, ops->gather_outputs());
        break;
      case ActionKind::kReduceNorm:
        posts.add(action, ops->reduce_norm());
        break;
      case ActionKind::kPartialNorm:
        idle_works.add(action, ops->partial_norm(action.stage));
        break;
      case ActionKind::kUpdate:
        posts.add(action, ops->update(action.stage));
        break;
      case ActionKind::kOptimizerStep:
        ops->optimizer_step();
        break;
      case ActionKind::kIdle:
        break;
    }
  }

  [[noreturn]] void fail(int index, const Action& action) {
    if (auto failure = transport.failure()) {
      drop_everything();
      throw Error(failure->kind, {.what = failure->message});
    }
    const Error error =
        describe_instruction_failure(rank, index, action, running, batch->step, of_user());
    transport.abort({rank, error.kind(), error.what()});
    drop_everything();
    throw error;
  }

  std::string of_user() {
    if (computes_loss) return "Model::loss";
    return is_compute(running.kind) ? stage_at(running.stage).chunk().take_failed_layer() : "";
  }

  void drop_everything() {
    computes_loss = false;
    mailbox.clear();
    posts.clear();
    idle_works.clear();
    for (auto& [index, stage] : stages) stage->reset();
    losses.clear();
    auxiliary.clear();
    gradient_metas.clear();
  }

  void forward(const Action& action) {
    const int s = action.stage, m = action.microbatch;
    const bool is_first = program.flow.is_first(s, m), is_last = program.flow.is_last(s, m);
    Tensors inputs = is_first ? Tensors() : take_inputs(ChannelKind::kActivation, action);
    Tensors produced;
    {
      std::optional<at::NoGradGuard> no_grad;
      if (program.backward_of(s) == StageBackward::kNone) no_grad.emplace();
      const Values batch_inputs = on_device(inputs_of(m));
      lengths.at(static_cast<std::size_t>(m)) = detail::lengths_of(batch_inputs);
      if (!is_first && rank_of(program.flow.producer(s, m)) != place)
        input_metas.remember(s, batch_inputs, inputs);
      const Values outputs =
          stage_at(s).forward({seed, batch->step, number_of(m)}, std::move(inputs), batch_inputs);
      Tensors roots = auxiliary.take(s, m, outputs);
      if (is_last) {
        computes_loss = true;
        roots.push_back(losses.compute(m, outputs, batch_inputs));
        computes_loss = false;
        produced.push_back(roots.back().detach());
      } else {
        for (const auto& [name, tensor] : outputs) {
          if (auxiliary.has(name)) continue;
          roots.push_back(tensor);
          produced.push_back(without_graph(tensor));
        }
      }
      keep(action, roots);
      observers.tell(&ExecutorObserver::produced, action, outputs, produced);
    }
    if (is_last) {
      losses.put(m, std::move(produced[0]));
    } else {
      hand_over(ChannelKind::kActivation, action, std::move(produced));
    }
  }

  void keep(const Action& forward, const Tensors& roots) {
    Stage& stage = stage_at(forward.stage);
    program.backward_of(forward.stage) == StageBackward::kNone
        ? stage.forget(number_of(forward.microbatch))
        : stage.keep(number_of(forward.microbatch), roots);
  }

  void backward(const Action& action) {
    const int s = action.stage, m = action.microbatch;
    Tensors gradients = program.flow.is_last(s, m) ? Tensors{losses.gradient(m)}
                                                   : take_inputs(ChannelKind::kGradient, action);
    auxiliary.put_gradients(s, m, losses.weight(m), gradients);
    const StageBackward backward = program.backward_of(s);
    const bool is_whole = action.kind == ActionKind::kBackward || !has_weight_gradients(backward);
    Tensors produced = is_whole ? stage_at(s).backward(number_of(m), std::move(gradients))
                                : stage_at(s).backward_input(number_of(m), std::move(gradients));
    observers.tell(&ExecutorObserver::produced, action, {}, produced);
    if (!program.flow.is_first(s, m) && passes_gradients_on(backward))
      hand_over(ChannelKind::kGradient, action, std::move(produced));
  }

  Tensors take_inputs(ChannelKind kind, const Action& action) {
    auto arriving = mailbox.take_arriving(kind, action.stage, action.microbatch);
    if (!arriving.second) return std::move(arriving.first);
    const Transport::Ticket ticket = *arriving.second;
    idle_works.run_until([&] { return transport.has_arrived(ticket); });
    observers.tell(&ExecutorObserver::waiting, action);
    Message message = transport.wait(ticket);
    observers.tell(&ExecutorObserver::arrived, action, message.tensors);
    return std::move(message.tensors);
  }

  // Passes tensors to the next stage if it is on this rank, otherwise to the SEND.
  void hand_over(ChannelKind kind, const Action& from, Tensors tensors) {
    const int neighbour = program.flow.destination(kind, from.stage, from.microbatch);
    if (rank_of(neighbour) == place) {
      mailbox.put_arriving(kind, neighbour, from.microbatch, std::move(tensors));
    } else {
      mailbox.put_leaving(kind, from.stage, from.microbatch, std::move(tensors));
    }
  }

  void send(ChannelKind kind, const Action& action) {
    const int s = action.stage, m = action.microbatch;
    const int neighbour = program.flow.destination(kind, s, m);
    Tensors tensors = mailbox.take_leaving(kind, s, m);
    observers.tell(&ExecutorObserver::sending, action, tensors);
    if (kind == ChannelKind::kActivation) gradient_metas.remember(s, m, tensors);
    transport.send(peers.at(rank_of(neighbour)), kind, {tag(neighbour, m), std::move(tensors)});
  }

  void post_receive(ChannelKind kind, const Action& action) {
    const int s = action.stage, m = action.microbatch;
    const bool activation = kind == ChannelKind::kActivation;
    std::optional<ExpectedTensors> expected =
        activation ? input_metas.expect(s, inputs_of(m)) : gradient_metas.expect(s, m);
    const Chunk& chunk = stage_at(s).chunk();
    if (expected) expected->names = activation ? chunk.inputs() : chunk.outputs();
    mailbox.put_posted(kind, s, m,
                       transport.post_receive(peers.at(rank_of(program.flow.source(kind, s, m))),
                                              kind, tag(s, m), expected));
  }
};

Executor::Executor(const Program& program, int rank, const std::vector<Stage*>& stages,
                   Transport& transport, StepOps& ops, LossFunction loss, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(program, rank, stages, transport, ops, std::move(loss),
                                   std::move(options))) {}
Executor::~Executor() = default;

void Executor::run_step(const StepBatch& batch) { impl_->run(batch, impl_->step_ops); }

const std::vector<MicrobatchLoss>& Executor::losses() const { return impl_->losses.values(); }
std::vector<MicrobatchAuxiliary> Executor::auxiliary_losses() const {
  std::vector<MicrobatchAuxiliary> values = impl_->auxiliary.values();
  for (MicrobatchAuxiliary& value : values) value.microbatch += impl_->first_microbatch;
  return values;
}
const StepTimes& Executor::times() const { return impl_->timer.times(); }

std::optional<NonFinite> Executor::find_non_finite(const StepBatch& batch) {
  FiniteCheck check(impl_->stages, impl_->program.flow);
  const ObserverList::Guest watch(impl_->observers, check);
  ComputeOnlyOps ops(impl_->step_ops);
  impl_->run(batch, ops);
  std::optional<NonFinite> found = check.found();
  for (auto& [index, stage] : impl_->stages) stage->clear_gradients();
  return found;
}

std::string Executor::flight_record() const { return impl_->recorder.text(); }

}  // namespace sluice
