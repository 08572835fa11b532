#include "sluice/executor.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <map>

#include "run/finite_check.h"
#include "run/flight_recorder.h"
#include "run/input_metas.h"
#include "run/instruction_failure.h"
#include "run/mailbox.h"
#include "run/memory_ledger.h"
#include "run/same_storage.h"
#include "run/step_losses.h"
#include "run/weight_order.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

// The same storage without a graph; still marked as wanting a gradient, which tells the receiver.
at::Tensor without_graph(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  at::Tensor result = same_storage(tensor);
  result.set_requires_grad(tensor.requires_grad());
  return result;
}

}  // namespace

struct Executor::Impl {
  const Program& program;
  const int rank;
  Transport& transport;
  StepOps& ops;
  const LossFunction loss_function;
  const ExecutorOptions options;
  std::map<int, Stage*> stages;

  const StepBatch* batch = nullptr;
  Action running;  // the instruction, or the half of a pair that runs
  Mailbox mailbox;
  InputMetas input_metas;
  FlightRecorder recorder;
  StepTimes times;
  StepLosses losses;
  // What the consumer of a sent activation will send back.
  std::map<std::pair<int, int>, std::vector<TensorMeta>> gradient_metas;
  std::optional<FiniteCheck>
      finite_check;  // during find_non_finite, in which nothing is reduced or updated

  Impl(const Program& the_program, int the_rank, std::vector<Stage*> the_stages,
       Transport& the_transport, StepOps& the_ops, LossFunction loss, ExecutorOptions the_options)
      : program(the_program),
        rank(the_rank),
        transport(the_transport),
        ops(the_ops),
        loss_function(std::move(loss)),
        options(std::move(the_options)),
        input_metas(options.input_metas),
        recorder(options.flight_recorder_size),
        losses(options.scale, options.divisor) {
    for (Stage* stage : the_stages) stages[stage->index()] = stage;
    check_layout();
    for (auto& [index, stage] : stages)
      stage->hold_early_weights(weight_order_differs(row(), index));
  }

  void check_layout() const {
    if (transport.rank() != rank || transport.size() != program.num_ranks()) {
      throw Error(ErrorKind::kUsage,
                  "rank " + std::to_string(rank) + " of a program of " +
                      std::to_string(program.num_ranks()) +
                      " ranks was given the transport of rank " + std::to_string(transport.rank()) +
                      " of " + std::to_string(transport.size()),
                  "Executor", "make one transport for each rank of the program");
    }
    for (int stage = 0; stage < program.num_stages(); ++stage) {
      const bool here = rank_of(stage) == rank;
      if (here == (stages.count(stage) != 0)) continue;
      throw Error(ErrorKind::kUsage,
                  here ? "stage " + std::to_string(stage) + " is missing"
                       : "stage " + std::to_string(stage) + " is another rank's",
                  "Executor of rank " + std::to_string(rank),
                  "give it the stages that Program::stage_map places here");
    }
  }

  const std::vector<Action>& row() const { return program.ranks[static_cast<std::size_t>(rank)]; }
  int rank_of(int stage) const { return program.stage_map.rank_of(stage); }
  bool is_last(int stage) const { return stage == program.num_stages() - 1; }
  Stage& stage_at(int stage) { return *stages.at(stage); }
  Values inputs_of(int microbatch) const {
    return batch->microbatches.at(static_cast<std::size_t>(microbatch));
  }
  MessageTag tag(int stage, int microbatch) const { return {stage, microbatch, batch->step}; }

  // ---- the loop ----

  void run(const StepBatch& step_batch) {
    check(step_batch);
    batch = &step_batch;
    losses.begin_step(step_batch.counts);
    times = {};
    for (auto& [index, stage] : stages) stage->clear_gradients();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < row().size(); ++i) run_instruction(static_cast<int>(i), row()[i]);
    times.total = seconds_since(start);
  }

  void check(const StepBatch& step_batch) {
    const std::size_t microbatches = step_batch.microbatches.size();
    if (microbatches == static_cast<std::size_t>(program.num_microbatches) &&
        step_batch.counts.size() == microbatches) {
      return;
    }
    const Error error(ErrorKind::kUsage,
                      "the program has " + std::to_string(program.num_microbatches) +
                          " microbatches, the batch " + std::to_string(microbatches) + " with " +
                          std::to_string(step_batch.counts.size()) + " counts",
                      "rank " + std::to_string(rank) + ", step " + std::to_string(step_batch.step));
    transport.abort({rank, error.kind(), error.what()});
    throw error;
  }

  void run_instruction(int index, const Action& action) {
    recorder.begin(batch->step, index, action);
    running = action;
    try {
      if (auto failure = transport.failure()) throw Error(failure->kind, failure->message);
      if (options.hooks.before) options.hooks.before(index, action);
      execute(action);
      if (options.hooks.after) options.hooks.after(index, action);
    } catch (...) {
      recorder.end(FlightRecorder::State::kFailed);
      fail(index, action);
    }
    recorder.end();
  }

  void execute(const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward:
        forward(action);
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        backward(action);
        break;
      case ActionKind::kBackwardWeight:
        backward_weight(action);
        break;
      case ActionKind::kOverlap:
        forward(running = action.overlap_forward());
        backward(running = action.overlap_backward());
        break;
      case ActionKind::kSendForward:
        send(ChannelKind::kActivation, action, action.stage + 1);
        break;
      case ActionKind::kSendBackward:
        send(ChannelKind::kGradient, action, action.stage - 1);
        break;
      case ActionKind::kRecvForward:
        post_receive(ChannelKind::kActivation, action, action.stage - 1);
        break;
      case ActionKind::kRecvBackward:
        post_receive(ChannelKind::kGradient, action, action.stage + 1);
        break;
      case ActionKind::kUnshard:
      case ActionKind::kReshard:
        break;  // parameters are not sharded: every rank holds those of its stages whole
      case ActionKind::kReduceGrad:
        if (!finite_check) ops.reduce_gradients(action.stage);
        break;
      case ActionKind::kReduceTied:
        if (!finite_check) ops.reduce_tied(action.group);
        break;
      case ActionKind::kReduceNorm:
        if (!finite_check) ops.reduce_norm();
        break;
      case ActionKind::kOptimizerStep:
        if (!finite_check) ops.optimizer_step();
        break;
      case ActionKind::kIdle:
        break;
    }
  }

  // Says where, wakes the other ranks and throws on.
  [[noreturn]] void fail(int index, const Action& action) {
    if (auto failure = transport.failure()) {
      drop_everything();
      throw Error(failure->kind, failure->message);
    }
    const Error error = describe_instruction_failure(rank, index, action, running, batch->step);
    transport.abort({rank, error.kind(), error.what()});
    drop_everything();
    throw error;
  }

  void drop_everything() {
    mailbox.clear();
    for (auto& [index, stage] : stages) stage->reset();
    losses.clear();
    gradient_metas.clear();
  }

  // ---- compute ----

  Tensors take_inputs(ChannelKind kind, int stage, int microbatch) {
    auto [tensors, ticket] = mailbox.take_arriving(kind, stage, microbatch);
    if (!ticket) return std::move(tensors);
    const Clock::time_point start = Clock::now();
    recorder.waiting();
    Message message = transport.wait(*ticket);
    recorder.running();
    times.waiting += seconds_since(start);
    recorder.add_bytes(bytes_of(message.tensors));
    if (options.ledger) {
      for (const at::Tensor& tensor : message.tensors) {
        if (tensor.defined()) options.ledger->transfer(tensor.storage().data(), rank);
      }
    }
    return std::move(message.tensors);
  }

  void forward(const Action& action) {
    const int s = action.stage, m = action.microbatch;
    Tensors inputs = s > 0 ? take_inputs(ChannelKind::kActivation, s, m) : Tensors();
    const Clock::time_point start = Clock::now();
    Tensors produced;
    {  // ends before the hand-over: only `produced` may then hold the outputs' storage
      std::optional<at::NoGradGuard> no_grad;
      if (program.forward_only) no_grad.emplace();
      const Values batch_inputs = inputs_of(m);
      if (s > 0 && rank_of(s - 1) != rank) input_metas.remember(s, batch_inputs, inputs);
      Values outputs =
          stage_at(s).forward({options.seed, batch->step, m}, std::move(inputs), batch_inputs);
      if (is_last(s)) {
        compute_loss(action, outputs, batch_inputs);
      } else {
        Tensors roots;
        for (const auto& [name, tensor] : outputs) {
          roots.push_back(tensor);
          produced.push_back(without_graph(tensor));
        }
        keep(action, roots);
        if (options.hooks.produced) options.hooks.produced(action, produced);
        if (finite_check) {
          for (const auto& [name, tensor] : outputs)
            finite_check->check_output(action, name, tensor);
        }
      }
    }
    times.compute += seconds_since(start);
    if (is_last(s)) return;
    if (rank_of(s + 1) == rank) {
      mailbox.put_arriving(ChannelKind::kActivation, s + 1, m, std::move(produced));
    } else {
      mailbox.put_leaving(ChannelKind::kActivation, s, m, std::move(produced));
    }
  }

  // Where the backward of the microbatch will start, if it has one.
  void keep(const Action& forward, const Tensors& roots) {
    Stage& stage = stage_at(forward.stage);
    program.forward_only ? stage.forget(forward.microbatch) : stage.keep(forward.microbatch, roots);
  }

  void compute_loss(const Action& action, const Values& outputs, const Values& batch_inputs) {
    const int m = action.microbatch;
    LossValue value = loss_function(outputs, batch_inputs);
    if (!value.loss.defined() || value.loss.numel() != 1) {
      throw Error(ErrorKind::kUsage, "the loss function must return one number",
                  value.loss.defined() ? "got " + to_text(meta_of(value.loss)) : "got nothing");
    }
    if (options.scale == GradientScale::kTokens &&
        value.count != batch->counts[static_cast<std::size_t>(m)]) {
      throw Error(ErrorKind::kUsage,
                  "the loss function counted " + std::to_string(value.count) +
                      " tokens, StepBatch::counts says " +
                      std::to_string(batch->counts[static_cast<std::size_t>(m)]),
                  "", "gradients are divided by the sum of the counts: let both say the same");
    }
    keep(action, {value.loss});
    Tensors produced{value.loss.detach()};
    if (options.hooks.produced) options.hooks.produced(action, produced);
    if (finite_check) {
      for (const auto& [name, tensor] : outputs) finite_check->check_output(action, name, tensor);
      finite_check->check_output(action, "loss", produced[0]);
    }
    losses.put(m, std::move(produced[0]), value.count);
  }

  void backward(const Action& action) {
    const int s = action.stage, m = action.microbatch;
    Tensors gradients =
        is_last(s) ? Tensors{losses.gradient(m)} : take_inputs(ChannelKind::kGradient, s, m);
    const Clock::time_point start = Clock::now();
    Tensors produced = action.kind == ActionKind::kBackward
                           ? stage_at(s).backward(m, std::move(gradients))
                           : stage_at(s).backward_input(m, std::move(gradients));
    times.compute += seconds_since(start);
    if (options.hooks.produced) options.hooks.produced(action, produced);
    if (finite_check) finite_check->check_gradients(action, stage_at(action.stage));
    if (s == 0) return;
    if (rank_of(s - 1) == rank) {
      mailbox.put_arriving(ChannelKind::kGradient, s - 1, m, std::move(produced));
    } else {
      mailbox.put_leaving(ChannelKind::kGradient, s, m, std::move(produced));
    }
  }

  void backward_weight(const Action& action) {
    const Clock::time_point start = Clock::now();
    stage_at(action.stage).backward_weight(action.microbatch);
    times.compute += seconds_since(start);
    if (finite_check) finite_check->check_gradients(action, stage_at(action.stage));
  }

  // ---- transfers ----

  void send(ChannelKind kind, const Action& action, int neighbour) {
    Tensors tensors = mailbox.take_leaving(kind, action.stage, action.microbatch);
    recorder.add_bytes(bytes_of(tensors));
    if (kind == ChannelKind::kActivation) {
      std::vector<TensorMeta>& metas = gradient_metas[{action.stage, action.microbatch}];
      metas.clear();
      for (const at::Tensor& tensor : tensors) metas.push_back(meta_of(tensor));
    }
    transport.send(rank_of(neighbour), kind,
                   {tag(neighbour, action.microbatch), std::move(tensors)});
  }

  void post_receive(ChannelKind kind, const Action& action, int neighbour) {
    const int s = action.stage, m = action.microbatch;
    std::optional<ExpectedTensors> expected;
    if (kind == ChannelKind::kActivation) {
      expected = input_metas.expect(s, inputs_of(m));
      if (expected) expected->names = stage_at(s).chunk().inputs();
    } else if (const auto sent = gradient_metas.find({s, m}); sent != gradient_metas.end()) {
      expected =
          ExpectedTensors{std::move(sent->second), /*certain=*/true, stage_at(s).chunk().outputs()};
      gradient_metas.erase(sent);
    }
    mailbox.put_posted(kind, s, m,
                       transport.post_receive(rank_of(neighbour), kind, tag(s, m), expected));
  }
};

Executor::Executor(const Program& program, int rank, std::vector<Stage*> stages,
                   Transport& transport, StepOps& ops, LossFunction loss, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(program, rank, std::move(stages), transport, ops,
                                   std::move(loss), std::move(options))) {}
Executor::~Executor() = default;

void Executor::run_step(const StepBatch& batch) { impl_->run(batch); }

const std::vector<MicrobatchLoss>& Executor::losses() const { return impl_->losses.values(); }
const StepTimes& Executor::times() const { return impl_->times; }

std::optional<NonFinite> Executor::find_non_finite(const StepBatch& batch) {
  // Whatever happens, the next step is an ordinary one.
  struct Watch {
    std::optional<FiniteCheck>& check;
    ~Watch() { check.reset(); }
  };
  const Watch watch{impl_->finite_check};
  impl_->finite_check.emplace();
  impl_->run(batch);
  std::optional<NonFinite> found = impl_->finite_check->found();
  if (found && found->in_forward)
    found->parameter = non_finite_parameter(impl_->stage_at(found->stage));
  for (auto& [index, stage] : impl_->stages) stage->clear_gradients();
  return found;
}

std::string Executor::flight_record() const { return impl_->recorder.text(); }

}  // namespace sluice
