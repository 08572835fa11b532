#include "sluice/parts/saver.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/gather_adapter.h"
#include "checkpoint/publication.h"
#include "checkpoint/save_agreement.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/tensor_files.h"
#include "comm/gather_messages.h"
#include "engine/rank_errors.h"

namespace sluice {
namespace {

enum class Phase : std::uint8_t { kIdle, kWriting, kCommitting };

template <typename T>
bool is_done(const std::future<T>& future, std::chrono::seconds patience) {
  return !future.valid() || future.wait_for(patience) == std::future_status::ready;
}

struct Status {
  Phase phase = Phase::kIdle;
  bool done = false;  // this rank has finished the phase
};

std::vector<Status> gather_status(const Status& own, const Group& world) {
  const Packer message = Packer().add(static_cast<int>(own.phase)).add(own.done);
  std::vector<Status> all;
  for (Unpacker& of_rank : gather_messages(world, message, "how far a save is")) {
    Status& status = all.emplace_back();
    status.phase = static_cast<Phase>(of_rank.take<int>());
    status.done = of_rank.take<bool>();
    of_rank.finish();
  }
  return all;
}

// Only warns, because no batch can have used these numbers without failing.
void warn_of_not_finite(const NamedTensors& parameters, std::int64_t step,
                        std::set<std::string>& told) {
  for (const auto& [name, tensor] : parameters) {
    const std::int64_t count = num_not_finite(tensor);
    if (count == 0 || !told.insert(name).second) continue;
    log_warning(
        formatted("step {} is saved with {} of '{}' that {} not finite; look at the weights from "
                  "which the run started",
                  step, counted(count, "number"), name, count == 1 ? "is" : "are"));
  }
}

bool all_done(const std::vector<Status>& all) {
  for (const Status& status : all) {
    // A rank in a later phase has already written its files.
    if (status.phase == Phase::kWriting && !status.done) return false;
  }
  return true;
}

}  // namespace

struct Saver::Impl {
  Phase phase = Phase::kIdle;
  SaveTarget target;
  Snapshot snapshot;
  std::optional<Publication> publication;  // on rank 0
  std::future<std::vector<SavedTensor>> writing;
  std::optional<WrittenFiles> written;
  std::future<void> committing;  // on rank 0
  std::optional<SaveOutcome> outcome;
  std::set<std::string> not_finite;

  bool leads(const Group& world) const { return world.rank() == kRankZero; }

  // Creates the directory on rank 0 and returns its path on every rank. Collective.
  std::string make_directory(const Group& world) {
    Packer message;
    if (leads(world)) {
      try {
        publication.emplace(target);
        message.add(true).add(publication->working());
      } catch (const Error& error) {
        message.add(false).add(std::string(error.what()));
      }
    }
    Unpacker answer(world.broadcast(message.bytes(), kRankZero).wait(), "where to save");
    const bool made = answer.take<bool>();
    auto text = answer.take<std::string>();
    answer.finish();
    if (!made) throw Error(ErrorKind::kCheckpoint, {.what = std::move(text)});
    return text;
  }

  void start_writing(const std::string& directory, NamedTensors parameters,
                     std::vector<TensorFile> files, std::shared_ptr<const KeptTensors> kept) {
    writing = std::async(
        std::launch::async,
        [this, directory, parameters = std::move(parameters), files = std::move(files),
         kept = std::move(kept), step = target.head.step, max_bytes = target.max_shard_bytes] {
          std::vector<SavedTensor> saved;
          if (kept) saved = kept->copy_into(directory, max_bytes);
          for (const TensorFile& file : files) {
            std::vector<SavedTensor> more = write_tensor_file(directory, file.name, file.tensors);
            std::move(more.begin(), more.end(), std::back_inserter(saved));
          }
          warn_of_not_finite(parameters, step, not_finite);
          return saved;
        });
  }

  Status status(bool wait) {
    // Wait in short intervals, so that other ranks do not run into their message timeout.
    const std::chrono::seconds patience(wait ? 1 : 0);
    Status own{phase, false};
    if (phase == Phase::kWriting) own.done = is_done(writing, patience);
    if (phase == Phase::kCommitting) own.done = is_done(committing, patience);
    return own;
  }

  void end(SaveOutcome came_to) {
    phase = Phase::kIdle;
    publication.reset();
    written.reset();
    outcome = std::move(came_to);
  }

  // If every rank has written its files, rank 0 commits in the background. Collective.
  void exchange_written(const Group& world) {
    if (phase == Phase::kIdle) {
      written = WrittenFiles{{}, formatted("rank {} had not started to save", world.rank())};
    } else if (!written) {
      try {
        written = WrittenFiles{writing.get(), {}};
      } catch (...) {
        written = WrittenFiles{{}, caught_error().what()};
      }
    }
    WrittenFiles all = gather_written(*written, world);
    if (!all.failure.empty()) {
      end({target.head.step, target.path, Error(ErrorKind::kCheckpoint, {.what = all.failure})});
      return;
    }
    phase = Phase::kCommitting;
    if (!leads(world)) return;
    committing = std::async(std::launch::async, [this, tensors = std::move(all.tensors)]() mutable {
      publication->commit(std::move(tensors));
    });
  }

  void share_outcome(const Group& world) {
    if (leads(world) && phase == Phase::kCommitting) {
      SaveOutcome came_to{target.head.step, target.path, {}};
      try {
        committing.get();
      } catch (...) {
        came_to.error.emplace(ErrorKind::kCheckpoint, ErrorText{.what = caught_error().what()});
      }
      end(std::move(came_to));
    }
    // Rank 0 has no outcome if its save threw before files were written.
    if (std::optional<SaveOutcome> of_leader = broadcast_outcome(outcome, world)) {
      end(std::move(*of_leader));
    } else {
      phase = Phase::kIdle;
      publication.reset();
    }
  }

  // Checks the progress of all ranks once. Returns true if the save has ended. Collective.
  bool advance(const Group& world, bool wait) {
    const std::vector<Status> all = gather_status(status(wait), world);
    const Status& leader = all.front();
    if (leader.phase == Phase::kWriting) {
      if (all_done(all)) exchange_written(world);
    } else if (leader.phase == Phase::kIdle || leader.done) {
      if (writing.valid()) writing.wait();
      share_outcome(world);
    } else {
      phase = Phase::kCommitting;  // this rank has written its files but missed the exchange
    }
    return phase == Phase::kIdle;
  }
};

Saver::Saver() : impl_(std::make_unique<Impl>()) {}

Saver::~Saver() {
  // Wait, because destroying the publication removes the directory that is written to.
  if (impl_->writing.valid()) impl_->writing.wait();
  if (impl_->committing.valid()) impl_->committing.wait();
}

bool Saver::in_flight() const { return impl_->phase != Phase::kIdle; }

std::optional<SaveOutcome> Saver::begin(const SaveTarget& target, const RankState& state,
                                        SaveFrom from, const Group& world) {
  if (in_flight()) throw Error(ErrorKind::kInternal, {.what = "a save started during another"});
  impl_->target = target;
  impl_->written.reset();
  impl_->outcome.reset();
  try {
    const std::string directory = impl_->make_directory(world);
    RankState kept = from == SaveFrom::kCopy ? impl_->snapshot.take(state) : state;
    const bool is_adapter = !target.adapter_config.empty();
    if (is_adapter) kept.parameters = gather_adapter(kept.parameters, world);
    SaveAgreement agreement = agree_on_files(directory, kept, target,
                                             {.stem = is_adapter ? "adapter_model" : "model",
                                              .max_bytes = target.max_shard_bytes,
                                              .whole = is_adapter},
                                             world);
    if (impl_->publication) impl_->publication->set_ties(std::move(agreement.ties));
    impl_->start_writing(directory, std::move(kept.parameters), std::move(agreement.files),
                         std::move(agreement.kept));
  } catch (const Error& error) {
    impl_->publication.reset();
    // Errors of these kinds occur on all ranks.
    if (error.kind() != ErrorKind::kCheckpoint && error.kind() != ErrorKind::kUsage) throw;
    impl_->end({target.head.step, target.path, error});
    return impl_->outcome;
  } catch (...) {
    impl_->publication.reset();
    throw;
  }
  impl_->phase = Phase::kWriting;
  return std::nullopt;
}

std::optional<SaveOutcome> Saver::poll(const Group& world) {
  if (!impl_->advance(world, /*wait=*/false)) return std::nullopt;
  return impl_->outcome;
}

std::optional<SaveOutcome> Saver::finish(const Group& world) {
  while (!impl_->advance(world, /*wait=*/true)) {
  }
  return impl_->outcome;
}

SaveOutcome save_checkpoint(const SaveTarget& target, const RankState& state, const Group& world) {
  Saver saver;
  if (std::optional<SaveOutcome> failed = saver.begin(target, state, SaveFrom::kLive, world))
    return *failed;
  return saver.finish(world).value();
}

}  // namespace sluice
