#include "train/agreement.h"

#include <string>
#include <vector>

#include "comm/gather_messages.h"
#include "run/autocast.h"
#include "sluice/error.h"
#include "train/fingerprint.h"

namespace sluice {
namespace {

struct Said {
  std::string call;
  std::vector<std::int64_t> counts;
  std::string autocast;
  std::int64_t outputs = 0;
  std::vector<double> scale;  // kind and divisor, where it is given
  std::vector<std::int64_t> fingerprint;

  bool agrees(const Said& other) const {
    return call == other.call && counts == other.counts && autocast == other.autocast &&
           outputs == other.outputs && scale == other.scale &&
           may_be_same(fingerprint, other.fingerprint);
  }
};

// What of the two differs, as rank `rank` did it.
std::string difference(const Said& own, const Said& theirs, int rank, int own_rank) {
  const std::string ranks = std::to_string(rank) + " and " + std::to_string(own_rank);
  if (own.call != theirs.call) return "rank " + std::to_string(rank) + " called " + theirs.call;
  if (own.counts != theirs.counts)
    return "the batches of ranks " + ranks + " fall into microbatches that count otherwise";
  if (own.autocast != theirs.autocast)
    return "autocast is " + theirs.autocast + " on rank " + std::to_string(rank) + ", " +
           own.autocast + " on rank " + std::to_string(own_rank);
  if (own.outputs == theirs.outputs && own.scale == theirs.scale)
    return "ranks " + ranks + " pass different batches";
  return "the StepOptions of ranks " + ranks + " differ in " +
         (own.outputs != theirs.outputs ? "outputs" : "scale");
}

// Collective.
void exchange(const Group& world, const Said& own) {
  WireWriter message;
  message.add(own.call)
      .add(own.counts)
      .add(own.autocast)
      .add(own.outputs)
      .add(own.scale)
      .add(own.fingerprint);
  std::vector<WireReader> messages = gather_messages(world, message, "calls of the ranks");
  for (int rank = 0; rank < world.size(); ++rank) {
    WireReader& reader = messages[rank];
    Said theirs;
    theirs.call = reader.take<std::string>();
    theirs.counts = reader.take<std::vector<std::int64_t>>();
    theirs.autocast = reader.take<std::string>();
    theirs.outputs = reader.take<std::int64_t>();
    theirs.scale = reader.take<std::vector<double>>();
    theirs.fingerprint = reader.take<std::vector<std::int64_t>>();
    reader.finish();
    if (theirs.agrees(own)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = difference(own, theirs, rank, world.rank()),
                 .where = (own.call == kEndOfBody ? "the end of the body" : own.call) +
                          " on rank " + std::to_string(world.rank()),
                 .remedy = own.call != theirs.call || own.autocast == theirs.autocast
                               ? "make the same calls with the same batch on every rank"
                               : "set it alike on every rank, or RunOptions::autocast"});
  }
}

}  // namespace

void require_agreement(const Group& world, const StepBatch& batch, const StepOptions& options,
                       const char* call) {
  Said own = {call, batch.counts, autocast_state(), static_cast<std::int64_t>(options.outputs), {}};
  if (batch.scale) own.scale = {static_cast<double>(batch.scale->kind), batch.scale->divisor};
  own.fingerprint = fingerprint(batch);
  exchange(world, own);
}

void require_call(const Group& world, const char* call) {
  Said own;
  own.call = call;
  exchange(world, own);
}

}  // namespace sluice
