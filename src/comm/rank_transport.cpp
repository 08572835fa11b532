#include <utility>

#include "base/format.h"
#include "comm/process_ranks.h"

namespace sluice {
namespace {

std::string describe(const MessageTag& tag, ChannelKind kind) {
  return formatted("{}{}{} of step {}", tag.stage,
                   kind == ChannelKind::kActivation ? "RECV_F" : "RECV_B", tag.microbatch,
                   tag.step);
}

class RankTransport final : public Transport {
 public:
  RankTransport(std::shared_ptr<ProcessRanks> process, int rank)
      : process_(std::move(process)),
        rank_(rank),
        world_(make_group(process_, process_->world(), rank)) {}

  int rank() const override { return rank_; }
  int size() const override { return process_->num_ranks(); }
  at::Device device() const override { return process_->device_of(rank_); }
  Group world() const override { return world_; }

  void send(int destination, ChannelKind kind, Message message) override {
    require_rank(destination);
    process_->send(rank_, destination, kind, std::move(message));
  }

  Ticket post_receive(int source, ChannelKind kind, const MessageTag& tag,
                      const std::optional<ExpectedTensors>& tensors) override {
    process_->failure().throw_if_happened();
    process_->count_as_this_thread();
    require_rank(source);
    Inbox& inbox = process_->inbox_of(rank_);
    std::lock_guard lock(inbox.mutex);
    const std::uint64_t number = inbox.channels[{source, kind}].posted++;
    posts_.emplace(next_ticket_, Post{source, kind, number, tag, tensors});
    return next_ticket_++;
  }

  bool has_arrived(Ticket ticket) const override {
    const auto found = posts_.find(ticket);
    if (found == posts_.end() || process_->failure().happened()) return true;
    const Post& post = found->second;
    Inbox& inbox = process_->inbox_of(rank_);
    const std::lock_guard lock(inbox.mutex);
    return inbox.channels[{post.source, post.kind}].has(post.number);
  }

  Message wait(Ticket ticket) override {
    const auto found = posts_.find(ticket);
    if (found == posts_.end()) {
      throw Error(ErrorKind::kInternal,
                  {.what = formatted("receive ticket {} is not posted", ticket),
                   .where = "rank " + std::to_string(rank_)});
    }
    const Post post = std::move(found->second);
    posts_.erase(found);
    const auto waits_text = [&] {
      return formatted("rank {} waits for {} from rank {}", rank_, describe(post.tag, post.kind),
                       post.source);
    };

    const ProcessRanks::Waiting waiting(*process_, waits_text);
    Inbox& inbox = process_->inbox_of(rank_);
    std::unique_lock lock(inbox.mutex);
    ArrivedMessages& channel = inbox.channels[{post.source, post.kind}];
    const auto give_up = std::chrono::steady_clock::now() + process_->deadline();
    const bool in_time = inbox.arrived.wait_until(
        lock, give_up, [&] { return channel.has(post.number) || process_->failure().happened(); });
    process_->failure().throw_if_happened();
    if (!in_time) {
      throw Error(ErrorKind::kPeer,
                  {.what = formatted("no message within {} ms", process_->deadline().count()),
                   .where = waits_text(),
                   .remedy = formatted("look at what rank {} is doing", post.source)});
    }
    auto [message, ready] = channel.take(post.number);
    lock.unlock();
    take_over(message.tensors, ready, device());
    check(post, message);
    return message;
  }

  void abort(const Failure& failure) noexcept override { process_->fail(failure); }
  std::optional<Failure> failure() const override { return process_->failure().get(); }
  std::string waits() const override { return process_->waits(); }

 private:
  struct Post {
    int source;
    ChannelKind kind;
    std::uint64_t number;
    MessageTag tag;
    std::optional<ExpectedTensors> tensors;
  };

  void require_rank(int rank) const {
    if (rank >= 0 && rank < size()) return;
    throw Error(ErrorKind::kInternal, {.what = "there is no rank " + std::to_string(rank),
                                       .where = formatted("transport of {} ranks", size())});
  }

  void check(const Post& post, const Message& message) const {
    const auto where = [&] {
      return formatted("rank {}, {} from rank {}", rank_, describe(post.tag, post.kind),
                       post.source);
    };
    if (message.tag != post.tag) {
      throw Error(ErrorKind::kInternal,
                  {.what = "another message arrived: " + describe(message.tag, post.kind),
                   .where = where()});
    }
    if (!post.tensors || !post.tensors->certain) return;
    const std::vector<TensorMeta>& expected = post.tensors->metas;
    if (expected.size() != message.tensors.size()) {
      throw Error(ErrorKind::kInternal, {.what = formatted("expected {} tensors, got {}",
                                                           expected.size(), message.tensors.size()),
                                         .where = where()});
    }
    for (std::size_t i = 0; i < message.tensors.size(); ++i) {
      if (!message.tensors[i].defined()) continue;  // the value has no gradient
      const TensorMeta got = meta_of(message.tensors[i]);
      if (got != expected[i]) {
        const std::vector<std::string>& names = post.tensors->names;
        throw Error(ErrorKind::kInternal,
                    {.what = formatted(
                         "{}: expected {}, got {}",
                         i < names.size() ? "'" + names[i] + "'" : "tensor " + std::to_string(i),
                         to_text(expected[i]), to_text(got)),
                     .where = where()});
      }
    }
  }

  std::shared_ptr<ProcessRanks> process_;
  int rank_;
  Group world_;
  Ticket next_ticket_ = 0;
  std::map<Ticket, Post> posts_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_endpoints(std::shared_ptr<ProcessRanks> process) {
  std::vector<std::unique_ptr<Transport>> endpoints;
  for (const int rank : process->ranks_here())
    endpoints.push_back(std::make_unique<RankTransport>(process, rank));
  return endpoints;
}

}  // namespace sluice
