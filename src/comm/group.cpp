// Compares the members' calls and adds tensors here, so that every backend has the same results and
// errors.
#include "sluice/parts/group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>

#include "base/format.h"
#include "base/packer.h"
#include "base/places.h"
#include "base/text.h"
#include "comm/group_backend.h"
#include "comm/sum_in_order.h"
#include "layer/call_place.h"
#include "sluice/parts/values.h"

namespace sluice {
namespace {

std::string describe(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> metas;
  for (const at::Tensor& tensor : tensors) {
    metas.push_back(tensor.defined() ? to_text(meta_of(tensor)) : "an undefined tensor");
  }
  return join(metas, ", ");
}

// Copies what error messages need, because an exchange may outlive the group.
class Place {
 public:
  explicit Place(const GroupBackend& backend)
      : members_(backend.members()), rank_(backend.rank()) {}
  const std::vector<int>& members() const { return members_; }
  int rank() const { return rank_; }

 private:
  std::vector<int> members_;
  int rank_;
};

template <typename Member>
[[noreturn]] void refuse_call(const Member& backend, const std::string& what) {
  throw Error(ErrorKind::kInternal,
              {.what = what,
               .where = "rank " + std::to_string(backend.members()[backend.rank()]),
               .remedy = "see sluice/parts/group.h"});
}

template <typename Member>
void require_same_call(const Member& backend, const std::vector<GroupNote>& notes) {
  std::vector<std::pair<std::string, std::vector<int>>> calls;
  for (std::size_t i = 0; i < notes.size(); ++i) {
    auto call = std::find_if(calls.begin(), calls.end(),
                             [&](const auto& known) { return known.first == notes[i].call; });
    if (call == calls.end()) call = calls.insert(calls.end(), {notes[i].call, {}});
    call->second.push_back(backend.members()[i]);
  }
  if (calls.size() == 1) return;
  std::vector<std::string> texts;
  for (const auto& [call, ranks] : calls) texts.push_back(call + " on " + ranks_text(ranks));
  throw Error(ErrorKind::kInternal,
              {.what = "the members of a group make different calls: " + join(texts, ", but "),
               .where = "group of " + ranks_text(backend.members()),
               .remedy = "let every member make the same calls in the same order"});
}

std::string placed(std::string call) {
  const std::string place = detail::call_place();
  return place.empty() ? call : place + ": " + call;
}

template <typename Finish>
auto collective(const std::shared_ptr<GroupBackend>& backend, GroupNote note,
                std::vector<at::Tensor> pieces, Finish finish) {
  using Result = std::invoke_result_t<Finish, Exchanged>;
  note.call = placed(std::move(note.call));
  return backend->exchange(std::move(note), std::move(pieces))
      .then([backend, finish = std::move(finish)](Exchanged exchanged) -> Result {
        require_same_call(*backend, exchanged.notes);
        return finish(std::move(exchanged));
      });
}

template <typename Member>
std::vector<at::Tensor> for_everybody(const Member& backend, const at::Tensor& tensor) {
  return std::vector<at::Tensor>(backend.members().size(), tensor);
}

std::vector<at::Tensor> pieces_of(Exchanged exchanged) { return std::move(exchanged.pieces); }

void require_one_for_each(const GroupBackend& backend, const std::string& call,
                          std::size_t num_pieces) {
  if (num_pieces == backend.members().size()) return;
  refuse_call(backend, call + " of " + counted(static_cast<std::int64_t>(num_pieces), "piece") +
                           " does not match a group of " +
                           counted(static_cast<std::int64_t>(backend.members().size()), "member"));
}

std::size_t require_member(const GroupBackend& backend, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= backend.members().size()) {
    refuse_call(backend, formatted("there is no member {} in the group of {}", rank,
                                   ranks_text(backend.members())));
  }
  return index;
}

const char* order_text(SumOrder order) { return order == SumOrder::kTree ? " in a tree" : ""; }

template <typename Member>
at::Tensor sum(const Member& backend, const Exchanged& exchanged, SumOrder order) {
  const at::Tensor& own = exchanged.pieces[backend.rank()];
  if (!own.defined() || own.scalar_type() == at::kBool) {
    refuse_call(backend, "cannot add up " + describe({own}));
  }
  return order == SumOrder::kTree ? sum_in_tree(exchanged.pieces, own.device())
                                  : sum_in_order(exchanged.pieces, own.device());
}

// Larger tensors are summed in pieces. For smaller ones, a second exchange costs more than it
// saves. All members choose alike, because their tensors have the same shape and dtype.
constexpr std::size_t kInPiecesBytes = 64 << 10;

// Each of n members sums one piece and sends the sum to all. So a member sends 2 (n - 1) / n of the
// tensor instead of n - 1 tensors. Additions have the same order, and so the same bits.
Work<at::Tensor> all_reduce_in_pieces(const std::shared_ptr<GroupBackend>& backend,
                                      const at::Tensor& tensor, SumOrder order) {
  const at::NoGradGuard no_grad;
  const auto num_members = static_cast<std::int64_t>(backend->members().size());
  const std::int64_t numel = tensor.numel();
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < num_members; ++i)
    sizes.push_back(numel * (i + 1) / num_members - numel * i / num_members);
  std::vector<at::Tensor> pieces = tensor.detach().contiguous().view(-1).split_with_sizes(sizes);
  const std::string call = placed("all_reduce of " + describe({tensor}) + order_text(order));
  return backend
      ->exchange_twice(
          {call, {}}, std::move(pieces),
          [place = Place(*backend), call, order](Exchanged exchanged) -> Gift {
            require_same_call(place, exchanged.notes);
            return {{call + ", the sums", {}}, for_everybody(place, sum(place, exchanged, order))};
          })
      .then([backend,
             like = at::empty_like(tensor, at::TensorOptions(), at::MemoryFormat::Preserve),
             sizes](Exchanged exchanged) {
        const at::NoGradGuard guard;
        require_same_call(*backend, exchanged.notes);
        at::Tensor sum = like;
        std::vector<at::Tensor> parts;
        for (at::Tensor& piece : exchanged.pieces) parts.push_back(piece.to(sum.device()));
        if (sum.is_contiguous()) {
          at::Tensor flat = sum.view(-1);
          at::cat_out(flat, parts);
        } else {
          sum.copy_(at::cat(parts).view(sum.sizes()));
        }
        return sum;
      });
}

}  // namespace

const std::shared_ptr<GroupBackend>& Group::backend() const {
  if (!backend_) {
    throw Error(ErrorKind::kInternal, {.what = "this rank used a group that it is not a member of",
                                       .where = "sluice::Group",
                                       .remedy = "test the group that split() returned"});
  }
  return backend_;
}

int Group::rank() const { return backend()->rank(); }
const std::vector<int>& Group::members() const { return backend()->members(); }
int Group::size() const { return static_cast<int>(members().size()); }

Work<std::vector<at::Tensor>> Group::all_gather(const at::Tensor& tensor) const {
  return collective(backend(), {"all_gather of tensors", {}}, for_everybody(*backend(), tensor),
                    pieces_of);
}

Work<std::vector<std::string>> Group::all_gather(std::string bytes) const {
  return collective(backend(), {"all_gather of bytes", std::move(bytes)}, {},
                    [](Exchanged exchanged) {
                      std::vector<std::string> gathered;
                      for (GroupNote& note : exchanged.notes)
                        gathered.push_back(std::move(note.bytes));
                      return gathered;
                    });
}

Work<at::Tensor> Group::broadcast(const at::Tensor& tensor, int root) const {
  const std::size_t from = require_member(*backend(), root);
  std::vector<at::Tensor> pieces;
  if (rank() == root) pieces = for_everybody(*backend(), tensor);
  return collective(
      backend(), {"broadcast of a tensor from rank " + std::to_string(members()[from]), {}},
      std::move(pieces), [from](Exchanged exchanged) { return std::move(exchanged.pieces[from]); });
}

Work<std::string> Group::broadcast(std::string bytes, int root) const {
  const std::size_t from = require_member(*backend(), root);
  if (rank() != root) bytes.clear();
  return collective(
      backend(),
      {"broadcast of bytes from rank " + std::to_string(members()[from]), std::move(bytes)}, {},
      [from](Exchanged exchanged) { return std::move(exchanged.notes[from].bytes); });
}

Work<std::vector<at::Tensor>> Group::all_to_all(std::vector<at::Tensor> pieces) const {
  require_one_for_each(*backend(), "all_to_all", pieces.size());
  return collective(backend(), {"all_to_all", {}}, std::move(pieces), pieces_of);
}

Work<at::Tensor> Group::all_reduce(const at::Tensor& tensor, SumOrder order) const {
  if (backend()->spans_processes() && tensor.defined() && tensor.nbytes() >= kInPiecesBytes)
    return all_reduce_in_pieces(backend(), tensor, order);
  return collective(backend(), {"all_reduce of " + describe({tensor}) + order_text(order), {}},
                    for_everybody(*backend(), tensor),
                    [backend = backend(), order](const Exchanged& exchanged) {
                      return sum(*backend, exchanged, order);
                    });
}

Work<at::Tensor> Group::reduce_scatter(std::vector<at::Tensor> pieces, SumOrder order) const {
  require_one_for_each(*backend(), "reduce_scatter", pieces.size());
  std::string call = "reduce_scatter of " + describe(pieces) + order_text(order);
  return collective(backend(), {std::move(call), {}}, std::move(pieces),
                    [backend = backend(), order](const Exchanged& exchanged) {
                      return sum(*backend, exchanged, order);
                    });
}

Work<void> Group::barrier() const {
  return collective(backend(), {"barrier", {}}, {}, [](const Exchanged&) {});
}

Group Group::split(int color) const {
  std::vector<int> with_same_color;
  const std::vector<GroupNote> notes =
      collective(backend(), {"split", Packer().add(color).bytes()}, {}, [](Exchanged exchanged) {
        return std::move(exchanged.notes);
      }).wait();
  for (std::size_t i = 0; i < notes.size(); ++i) {
    Unpacker reader(notes[i].bytes, "split, from rank " + std::to_string(members()[i]));
    if (reader.take<int>() == color) with_same_color.push_back(members()[i]);
    reader.finish();
  }
  return color < 0 ? Group() : Group(backend()->split(std::move(with_same_color)));
}

}  // namespace sluice
