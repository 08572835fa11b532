#include "train/agreement.h"

#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "comm/gather_messages.h"
#include "layer/autocast.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct Said {
  std::string call;
  std::vector<std::int64_t> counts;
  std::string autocast;
  std::int64_t outputs = 0;
  std::vector<double> scale;
  std::int64_t replica = 0;
  std::vector<std::int64_t> fingerprint;

  bool agrees(const Said& other) const {
    const bool same_batch =
        counts == other.counts && fingerprints_match(fingerprint, other.fingerprint);
    return call == other.call && (replica != other.replica || same_batch) &&
           autocast == other.autocast && outputs == other.outputs && scale == other.scale;
  }
};

std::string difference(const Said& own, const Said& theirs, int rank, int own_rank) {
  const std::string ranks = formatted("{} and {}", rank, own_rank);
  if (own.call != theirs.call) return formatted("rank {} called {}", rank, theirs.call);
  if (own.replica == theirs.replica && own.counts != theirs.counts)
    return "the batches of ranks " + ranks + " have microbatches with different counts";
  if (own.autocast != theirs.autocast)
    return formatted("autocast is {} on rank {}, but {} on rank {}", theirs.autocast, rank,
                     own.autocast, own_rank);
  if (own.outputs == theirs.outputs && own.scale == theirs.scale)
    return "ranks " + ranks + " pass different batches";
  return formatted("the StepOptions of ranks {} differ in {}", ranks,
                   own.outputs != theirs.outputs ? "outputs" : "scale");
}

std::string remedy_of(const Said& own, const Said& theirs) {
  if (own.call == theirs.call && own.autocast != theirs.autocast)
    return "set it alike on every rank, or set RunOptions::autocast";
  const std::string same = "make the same calls with the same batch on every rank";
  const bool only_batches_differ = own.call == theirs.call && own.counts == theirs.counts &&
                                   own.outputs == theirs.outputs && own.scale == theirs.scale;
  if (!only_batches_differ) return same;
  return same +
         ": a loader's RandomSampler draws alike under "
         "sluice::KeyedRandomScope(pipeline.seed(), epoch, \"loader\", 0)";
}

std::vector<Said> exchange(const Group& world, const Said& own) {
  Packer message;
  message.add(own.call)
      .add(own.counts)
      .add(own.autocast)
      .add(own.outputs)
      .add(own.scale)
      .add(own.replica)
      .add(own.fingerprint);
  std::vector<Said> all;
  std::vector<Unpacker> messages = gather_messages(world, message, "calls of the ranks");
  for (int rank = 0; rank < world.size(); ++rank) {
    Unpacker& reader = messages[rank];
    Said theirs;
    theirs.call = reader.take<std::string>();
    theirs.counts = reader.take<std::vector<std::int64_t>>();
    theirs.autocast = reader.take<std::string>();
    theirs.outputs = reader.take<std::int64_t>();
    theirs.scale = reader.take<std::vector<double>>();
    theirs.replica = reader.take<std::int64_t>();
    theirs.fingerprint = reader.take<std::vector<std::int64_t>>();
    reader.finish();
    all.push_back(theirs);
    if (theirs.agrees(own)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = difference(own, theirs, rank, world.rank()),
                 .where = formatted("{} on rank {}",
                                    own.call == kEndOfBody ? "the end of the body" : own.call,
                                    world.rank()),
                 .remedy = remedy_of(own, theirs)});
  }
  return all;
}

// Every forward of a replica exchanges tokens with the replicas that share its experts.
void require_as_many_microbatches(const RunGroups& groups, const std::vector<Said>& all,
                                  const Said& own) {
  for (const Said& said : all) {
    const bool shares_experts =
        said.replica / groups.num_experts_ranks == groups.replica / groups.num_experts_ranks;
    if (!shares_experts || said.counts.size() == own.counts.size()) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("replicas {} and {} share experts, but have {} and {}",
                                   groups.replica, said.replica, own.counts.size(),
                                   counted(std::ssize(said.counts), "microbatch")),
                 .where = own.call,
                 .remedy = "give replicas that share experts equally many microbatches, such as "
                           "further ones whose labels are not counted"});
  }
}

}  // namespace

void agree(const RunGroups& groups, StepBatch& batch, const StepOptions& options, const char* call,
           Compared compared) {
  Said own = {call, batch.counts, autocast_state(), static_cast<std::int64_t>(options.outputs), {}};
  if (batch.scale) own.scale = {static_cast<double>(batch.scale->kind), batch.scale->divisor};
  own.fingerprint = fingerprint(batch, compared);
  own.replica = groups.replica;
  const std::vector<Said> all = exchange(groups.world, own);
  if (groups.num_experts_ranks > 1) require_as_many_microbatches(groups, all, own);
  if (groups.num_replicas == 1) return;
  std::map<std::int64_t, const Said*> of_replica;
  for (const Said& said : all) of_replica.emplace(said.replica, &said);
  batch.first_microbatch = 0;
  batch.total_count = 0;
  for (const auto& [replica, said] : of_replica) {
    if (replica < groups.replica) batch.first_microbatch += std::ssize(said->counts);
    batch.total_count =
        std::accumulate(said->counts.begin(), said->counts.end(), *batch.total_count);
  }
}

void require_call(const Group& world, const char* call) {
  Said own;
  own.call = call;
  exchange(world, own);
}

}  // namespace sluice
