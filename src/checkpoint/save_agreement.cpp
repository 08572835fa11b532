#include "checkpoint/save_agreement.h"

#include <filesystem>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/format.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_files.h"
#include "comm/gather_messages.h"
#include "io/hf_files.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

struct Offer {
  bool sees_directory = false;
  std::vector<std::string> parameters, buffers, buffer_hashes, extra;
  std::vector<std::string> other_uses, first_uses;
};

Packer to_message(const Offer& offer) {
  return Packer()
      .add(offer.sees_directory)
      .add(offer.parameters)
      .add(offer.buffers)
      .add(offer.buffer_hashes)
      .add(offer.extra)
      .add(offer.other_uses)
      .add(offer.first_uses);
}

std::vector<Offer> gather_offers(const Offer& own, const Group& world) {
  std::vector<Offer> offers;
  for (Unpacker& message : gather_messages(world, to_message(own), "what is to be saved")) {
    Offer& offer = offers.emplace_back();
    offer.sees_directory = message.take<bool>();
    offer.parameters = message.take<std::vector<std::string>>();
    offer.buffers = message.take<std::vector<std::string>>();
    offer.buffer_hashes = message.take<std::vector<std::string>>();
    offer.extra = message.take<std::vector<std::string>>();
    offer.other_uses = message.take<std::vector<std::string>>();
    offer.first_uses = message.take<std::vector<std::string>>();
    message.finish();
  }
  return offers;
}

void require_seen(const std::vector<Offer>& offers, const std::string& directory) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].sees_directory) continue;
    throw Error(ErrorKind::kCheckpoint,
                {.what = formatted("rank {} does not see the folder that rank 0 created", rank),
                 .where = directory,
                 .remedy = "save to a path that all machines share"});
  }
}

void require_once(const std::vector<Offer>& offers, std::vector<std::string> Offer::*names) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    for (const std::string& name : offers[rank].*names) {
      const auto [known, added] = rank_of.emplace(name, rank);
      if (added) continue;
      throw Error(ErrorKind::kInternal,
                  {.what = formatted("ranks {} and {} both save '{}'", known->second, rank, name)});
    }
  }
}

std::map<std::string, std::size_t> owners_of_buffers(const std::vector<Offer>& offers) {
  std::map<std::string, std::size_t> owners;
  std::map<std::string, std::string> hashes;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& offer = offers[rank];
    for (std::size_t i = 0; i < offer.buffers.size(); ++i) {
      const std::string& name = offer.buffers[i];
      owners.emplace(name, rank);
      const auto [known, added] = hashes.emplace(name, offer.buffer_hashes.at(i));
      if (added || known->second == offer.buffer_hashes.at(i)) continue;
      throw Error(ErrorKind::kUsage,
                  {.what = "the buffer '" + name + "' has different values on two stages",
                   .where = "rank " + std::to_string(rank),
                   .remedy = "hold it in a part of one stage, or save it as extra state"});
    }
  }
  return owners;
}

NamedTensors weights_to_write(const RankState& state,
                              const std::map<std::string, std::size_t>& owners, std::size_t rank) {
  NamedTensors weights = state.parameters;
  std::set<std::string> seen;
  for (const auto& [name, tensor] : state.buffers) {
    if (owners.at(name) == rank && seen.insert(name).second) weights.emplace_back(name, tensor);
  }
  return weights;
}

// Whether rank 0 found kept tensors (kept_tensors.h), which need an index and numbered weight
// files. Collective. Sets `kept` on rank 0 only.
bool has_kept(const SaveTarget& target, const std::vector<Offer>& offers, const Group& world,
              std::shared_ptr<const KeptTensors>& kept) {
  Packer message;
  if (world.rank() == kRankZero) {
    std::set<std::string> saved;
    for (const Offer& offer : offers)
      saved.insert(offer.parameters.begin(), offer.parameters.end());
    std::string failure;
    try {
      kept = tensors_to_keep(target.part_of_source.get(), target.source_directory, saved);
    } catch (const std::exception& error) {  // other ranks wait for the message
      failure = error.what();
    }
    message.add(failure).add(kept != nullptr);
  }
  Unpacker answer(world.broadcast(message.bytes(), kRankZero).wait(), "what is kept");
  auto failure = answer.take<std::string>();
  const bool found = answer.take<bool>();
  answer.finish();
  if (!failure.empty()) throw Error(ErrorKind::kCheckpoint, {.what = std::move(failure)});
  return found;
}

// Numbers the files of all ranks consecutively. Collective.
void add_files(const std::string& folder, const std::string& stem,
               std::vector<NamedTensors> contents, const Group& world,
               std::vector<TensorFile>& files, bool has_others = false) {
  const auto rank = static_cast<std::size_t>(world.rank());
  std::size_t first = 0, all = 0, other = 0;
  for (Unpacker& message :
       gather_messages(world, Packer().add(contents.size()), "how many files")) {
    const auto number = message.take<std::size_t>();
    message.finish();
    if (other++ < rank) first += number;
    all += number;
  }
  const auto name = has_others ? io::numbered_shard_name : io::shard_name;
  for (std::size_t i = 0; i < contents.size(); ++i)
    files.push_back({folder + name(stem, first + i, all), std::move(contents[i])});
}

}  // namespace

SaveAgreement agree_on_files(const std::string& directory, const RankState& state,
                             const SaveTarget& target, const WeightFiles& weights,
                             const Group& world) {
  Offer own;
  std::error_code unseen;
  own.sees_directory = std::filesystem::is_directory(directory, unseen);
  own.parameters = names_of(state.parameters);
  own.buffers = names_of(state.buffers);
  own.extra = names_of(state.extra);
  for (const auto& [name, tensor] : state.buffers) own.buffer_hashes.push_back(tensor_hash(tensor));
  for (const auto& [other, first] : state.ties) {
    own.other_uses.push_back(other);
    own.first_uses.push_back(first);
  }
  const std::vector<Offer> offers = gather_offers(own, world);
  require_seen(offers, directory);
  require_once(offers, &Offer::parameters);
  require_once(offers, &Offer::extra);
  const auto owners = owners_of_buffers(offers);

  SaveAgreement agreement;
  for (const Offer& offer : offers) {
    for (std::size_t i = 0; i < offer.other_uses.size(); ++i)
      agreement.ties.emplace(offer.other_uses[i], offer.first_uses.at(i));
  }
  const auto split = [&](const NamedTensors& tensors) {
    return split_into_files(tensors, weights.max_bytes);
  };
  const auto rank = static_cast<std::size_t>(world.rank());
  // An adapter's checkpoint has no copies of the base model's other tensors.
  const bool keeps = !weights.whole && has_kept(target, offers, world, agreement.kept);
  const NamedTensors own_weights = weights_to_write(state, owners, rank);
  const std::uint64_t most =
      weights.whole ? std::numeric_limits<std::uint64_t>::max() : weights.max_bytes;
  add_files("", weights.stem, split_into_files(own_weights, most), world, agreement.files, keeps);
  add_files(std::string(kOptimizerFolder) + "/", "state", split(state.optimizer), world,
            agreement.files);
  add_files(std::string(kExtraFolder) + "/", "state", split(state.extra), world, agreement.files);
  return agreement;
}

WrittenFiles gather_written(const WrittenFiles& own, const Group& world) {
  Packer message;
  message.add(own.failure).add(own.tensors.size());
  for (const SavedTensor& tensor : own.tensors) {
    message.add(tensor.name)
        .add(tensor.file)
        .add(tensor.offset)
        .add(tensor.bytes)
        .add(tensor.shape)
        .add(tensor.dtype)
        .add(tensor.hash);
  }
  WrittenFiles all;
  for (Unpacker& of_rank : gather_messages(world, message, "what was written")) {
    const auto failure = of_rank.take<std::string>();
    if (all.failure.empty()) all.failure = failure;
    for (auto left = of_rank.take<std::size_t>(); left > 0; --left) {
      SavedTensor& tensor = all.tensors.emplace_back();
      tensor.name = of_rank.take<std::string>();
      tensor.file = of_rank.take<std::string>();
      tensor.offset = of_rank.take<std::uint64_t>();
      tensor.bytes = of_rank.take<std::uint64_t>();
      tensor.shape = of_rank.take<std::vector<std::int64_t>>();
      tensor.dtype = of_rank.take<std::string>();
      tensor.hash = of_rank.take<std::string>();
    }
    of_rank.finish();
  }
  return all;
}

std::optional<SaveOutcome> broadcast_outcome(const std::optional<SaveOutcome>& own,
                                             const Group& world) {
  Packer message;
  if (world.rank() == kRankZero) {
    message.add(own.has_value());
    if (own) {
      message.add(own->step).add(own->path).add(own->error ? std::string(own->error->what()) : "");
    }
  }
  Unpacker answer(world.broadcast(message.bytes(), kRankZero).wait(), "what a save came to");
  std::optional<SaveOutcome> outcome;
  if (answer.take<bool>()) {
    outcome.emplace();
    outcome->step = answer.take<std::int64_t>();
    outcome->path = answer.take<std::string>();
    if (auto failure = answer.take<std::string>(); !failure.empty())
      outcome->error.emplace(ErrorKind::kCheckpoint, ErrorText{.what = std::move(failure)});
  }
  answer.finish();
  return outcome;
}

}  // namespace sluice
