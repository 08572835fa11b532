// Ranks as threads of one process: messages move between queues, tensors keep their storage.
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "comm/first_failure.h"
#include "comm/local_group.h"
#include "sluice/parts/transport.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

std::string describe(const MessageTag& tag, ChannelKind kind) {
  return std::to_string(tag.stage) + (kind == ChannelKind::kActivation ? "RECV_F" : "RECV_B") +
         std::to_string(tag.microbatch) + " of step " + std::to_string(tag.step);
}

// One channel, seen from its receiver. Message k of the channel belongs to the k-th post.
struct Channel {
  std::deque<std::optional<Message>> messages;  // arrived and not yet taken, from number `first`
  std::uint64_t first = 0;
  std::uint64_t posted = 0;

  bool has(std::uint64_t number) const { return number - first < messages.size(); }
  Message take(std::uint64_t number) {
    std::optional<Message>& slot = messages[number - first];
    Message message = std::move(*slot);
    slot.reset();
    while (!messages.empty() && !messages.front()) {
      messages.pop_front();
      ++first;
    }
    return message;
  }
};

// What arrives at one rank.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, ChannelKind>, Channel> channels;
};

std::vector<int> ranks_below(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// What the ranks share.
struct Hub {
  Hub(int size, const TransportOptions& transport_options)
      : options(transport_options),
        inboxes(static_cast<std::size_t>(size)),
        world(std::make_shared<GroupState>(ranks_below(size), options.deadline, failure)) {}

  const TransportOptions options;
  std::vector<Inbox> inboxes;
  const std::shared_ptr<FirstFailure> failure = std::make_shared<FirstFailure>();
  const std::shared_ptr<GroupState> world;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), world_(make_local_group(hub_->world, rank)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->inboxes.size()); }
  Group world() const override { return world_; }

  void send(int destination, ChannelKind kind, Message message) override {
    Inbox& inbox = inbox_of(destination);
    {
      std::lock_guard lock(inbox.mutex);
      hub_->failure->throw_if_happened();
      inbox.channels[{rank_, kind}].messages.emplace_back(std::move(message));
    }
    inbox.arrived.notify_one();
  }

  Ticket post_receive(int source, ChannelKind kind, const MessageTag& tag,
                      const std::optional<ExpectedTensors>& tensors) override {
    hub_->failure->throw_if_happened();
    inbox_of(source);  // the rank exists
    Inbox& inbox = inbox_of(rank_);
    std::lock_guard lock(inbox.mutex);
    const std::uint64_t number = inbox.channels[{source, kind}].posted++;
    posts_.emplace(next_ticket_, Post{source, kind, number, tag, tensors});
    return next_ticket_++;
  }

  Message wait(Ticket ticket) override {
    const auto found = posts_.find(ticket);
    if (found == posts_.end()) {
      throw Error(ErrorKind::kInternal,
                  {.what = "receive ticket " + std::to_string(ticket) + " is not posted",
                   .where = "rank " + std::to_string(rank_)});
    }
    const Post post = std::move(found->second);
    posts_.erase(found);

    Inbox& inbox = inbox_of(rank_);
    std::unique_lock lock(inbox.mutex);
    Channel& channel = inbox.channels[{post.source, post.kind}];
    const bool in_time = inbox.arrived.wait_until(lock, Clock::now() + hub_->options.deadline, [&] {
      return channel.has(post.number) || hub_->failure->happened();
    });
    hub_->failure->throw_if_happened();
    if (!in_time) {
      throw Error(
          ErrorKind::kPeer,
          {.what = "no message within " + std::to_string(hub_->options.deadline.count()) + " ms",
           .where = "rank " + std::to_string(rank_) + " waits for " +
                    describe(post.tag, post.kind) + " from rank " + std::to_string(post.source),
           .remedy = "look at what rank " + std::to_string(post.source) + " is doing"});
    }
    Message message = channel.take(post.number);
    lock.unlock();
    check(post, message);
    return message;
  }

  void abort(const Failure& failure) noexcept override {
    if (!hub_->failure->set(failure)) return;
    // Taking each mutex once makes sure that no waiter is between its test and its sleep.
    for (Inbox& inbox : hub_->inboxes) {
      {
        std::lock_guard lock(inbox.mutex);
        for (auto& [source, channel] : inbox.channels) channel.messages.clear();
      }
      inbox.arrived.notify_all();
    }
    hub_->world->wake();
  }

  std::optional<Failure> failure() const override { return hub_->failure->get(); }

 private:
  struct Post {
    int source;
    ChannelKind kind;
    std::uint64_t number;
    MessageTag tag;
    std::optional<ExpectedTensors> tensors;
  };

  Inbox& inbox_of(int rank) {
    if (rank < 0 || rank >= size()) {
      throw Error(ErrorKind::kInternal,
                  {.what = "no rank " + std::to_string(rank),
                   .where = "transport of " + std::to_string(size()) + " ranks"});
    }
    return hub_->inboxes[rank];
  }

  void check(const Post& post, const Message& message) const {
    const std::string where = "rank " + std::to_string(rank_) + ", " +
                              describe(post.tag, post.kind) + " from rank " +
                              std::to_string(post.source);
    if (message.tag != post.tag) {
      throw Error(
          ErrorKind::kInternal,
          {.what = "another message arrived: " + describe(message.tag, post.kind), .where = where});
    }
    if (!post.tensors || !post.tensors->certain) return;
    const std::vector<TensorMeta>& expected = post.tensors->metas;
    if (expected.size() != message.tensors.size()) {
      throw Error(ErrorKind::kInternal,
                  {.what = "expected " + std::to_string(expected.size()) + " tensors, got " +
                           std::to_string(message.tensors.size()),
                   .where = where});
    }
    for (std::size_t i = 0; i < message.tensors.size(); ++i) {
      if (!message.tensors[i].defined()) continue;  // a value without gradient
      const TensorMeta got = meta_of(message.tensors[i]);
      if (got != expected[i]) {
        const std::vector<std::string>& names = post.tensors->names;
        throw Error(
            ErrorKind::kInternal,
            {.what = (i < names.size() ? "'" + names[i] + "'" : "tensor " + std::to_string(i)) +
                     ": expected " + to_text(expected[i]) + ", got " + to_text(got),
             .where = where});
      }
    }
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  Group world_;
  Ticket next_ticket_ = 0;
  std::map<Ticket, Post> posts_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int size,
                                                              const TransportOptions& options) {
  if (size < 1) throw Error(ErrorKind::kInternal, {.what = "a transport needs at least one rank"});
  auto hub = std::make_shared<Hub>(size, options);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < size; ++rank)
    transports.push_back(std::make_unique<LocalTransport>(hub, rank));
  return transports;
}

}  // namespace sluice
