#include "comm/gloo_link.h"

#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "comm/no_sigpipe.h"
#include "comm/pair_proof.h"
#include "comm/process_ranks.h"
#include "launch/sha256.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using c10d::ProcessGroupGloo;
using GroupPtr = c10::intrusive_ptr<ProcessGroupGloo>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

constexpr std::size_t kNumLanes = 2;
constexpr std::array<const char*, kNumLanes> kLaneNames = {"messages", "collectives"};
constexpr std::int64_t kHeaderBytes = 8192;
constexpr int kPostedHeaders = 4;  // so that a header need not ask for its receive
constexpr std::uint64_t kMagic = 0x31'65'63'69'75'6c'73'00;
constexpr std::uint64_t kMaxOutlineBytes = std::uint64_t{1} << 32;
// A wait of Gloo's that runs out of time breaks all connections of the group: ours end by abort().
constexpr Milliseconds kForever = std::chrono::hours(24 * 365);
// Time for the other processes to take the news of a failure.
constexpr Milliseconds kFarewell{1000};

enum Tag : int { kHeaderTag = 0, kNonceTag = 1, kProofTag = 2, kPayloadTag = 8 };

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
int payload_tag(std::int64_t bytes) { return kPayloadTag + static_cast<int>(rounded(bytes) / 64); }

struct Prefix {
  std::uint64_t magic = kMagic;
  std::uint64_t outline_bytes = 0;
  std::uint64_t outline_inside = 0;  // 1: follows in the header
  std::uint64_t payload_inside = 0;  // 1: the tensors' bytes follow in the header
};

// While it lives, this thread's tensors count as those of the ranks here.
class CountsAs {
 public:
  explicit CountsAs(const LinkReceiver& receiver) : before_(Info::current()) {
    Info::_forceCurrentDebugInfo(receiver.counts_as());
  }
  ~CountsAs() { Info::_forceCurrentDebugInfo(before_); }
  CountsAs(const CountsAs&) = delete;
  CountsAs& operator=(const CountsAs&) = delete;

 private:
  using Info = c10::ThreadLocalDebugInfo;
  const std::shared_ptr<Info> before_;
};

at::Tensor bytes_tensor(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

at::Tensor copied(const std::string& bytes) {
  at::Tensor tensor = bytes_tensor(static_cast<std::int64_t>(bytes.size()));
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string text_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Gloo's message, without the place in its sources.
std::string reason_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  text = first_line(text);
  if (text.starts_with('[')) {
    if (const auto end = text.find("] "); end != std::string::npos) text = text.substr(end + 2);
  }
  return text;
}

// Gloo's connection to the other process is gone.
struct ConnectionLost {
  std::string how;
};

// One process group; its calls are one at a time.
struct Lane {
  GroupPtr group;
  std::mutex calls;

  WorkPtr send(at::Tensor bytes, int process, int tag) {
    std::vector<at::Tensor> tensors{std::move(bytes)};
    const NoSigpipe no_sigpipe;
    const std::lock_guard lock(calls);
    return group->send(tensors, process, tag);
  }
  WorkPtr receive(at::Tensor bytes, int process, int tag) {
    std::vector<at::Tensor> tensors{std::move(bytes)};
    const NoSigpipe no_sigpipe;
    const std::lock_guard lock(calls);
    return group->recv(tensors, process, tag);
  }
};

// One lane to one process.
class PeerLane {
 public:
  PeerLane(Lane& lane, int process, std::string name)
      : lane_(lane), process_(process), name_(std::move(name)) {}
  ~PeerLane() { join(); }

  void start(LinkReceiver& receiver) {
    receiver_thread_ = std::thread([this, &receiver] { receive_frames(receiver); });
    reaper_thread_ = std::thread([this, &receiver] { release_sent(receiver); });
  }

  void send(const Frame& frame) {
    std::vector<TensorLayout> layouts;
    std::vector<at::Tensor> payloads;
    std::int64_t payload_bytes = 0;
    for (const at::Tensor& tensor : frame.tensors) {
      layouts.emplace_back(tensor);
      const std::int64_t bytes = layouts.back().num_bytes();
      payload_bytes += bytes;
      if (bytes > 0) payloads.push_back(layouts.back().flatten(tensor));
    }
    const std::string outline = write_outline(frame.head, layouts);
    Prefix prefix;
    prefix.outline_bytes = outline.size();
    const auto with_outline = static_cast<std::int64_t>(sizeof prefix + outline.size());
    prefix.outline_inside = with_outline <= kHeaderBytes;
    prefix.payload_inside = prefix.outline_inside && with_outline + payload_bytes <= kHeaderBytes;

    at::Tensor header =
        bytes_tensor(prefix.payload_inside   ? with_outline + payload_bytes
                     : prefix.outline_inside ? with_outline
                                             : static_cast<std::int64_t>(sizeof prefix));
    auto* at = static_cast<char*>(header.mutable_data_ptr());
    const auto put = [&](const void* bytes, std::size_t size) {
      std::memcpy(at, bytes, size);
      at += size;
    };
    put(&prefix, sizeof prefix);
    if (prefix.outline_inside) put(outline.data(), outline.size());
    if (prefix.payload_inside) {
      for (const at::Tensor& payload : payloads) put(payload.const_data_ptr(), payload.nbytes());
    }

    const std::lock_guard lock(mutex_);
    if (closed_ || ended_ || broken_) return;
    try {
      if (!prefix.outline_inside) post_send(copied(outline));
      if (!prefix.payload_inside) {
        for (at::Tensor& payload : payloads) post_send(std::move(payload));
      }
      sending_.push_back(lane_.send(std::move(header), process_, kHeaderTag));
    } catch (const std::exception&) {
      broken_ = true;  // the receiver says so
    }
    changed_.notify_all();
  }

  // Nothing is sent after this frame. Returns at once.
  void send_last(const Frame& frame) {
    send(frame);
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  // All that was sent has left, or never will. False after `until`.
  bool flush(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until,
                               [&] { return sending_.empty() || broken_ || stopping_; });
  }
  // Ends the threads.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = stopping_ = true;
      for (const WorkPtr& work : sending_) work->abort();
      for (const WorkPtr& work : receiving_) work->abort();
    }
    changed_.notify_all();
    join();
  }
  // Works that Gloo may still write to or read from: to be dropped after the group.
  std::vector<WorkPtr> leftovers() {
    std::vector<WorkPtr> works(sending_.begin(), sending_.end());
    works.insert(works.end(), receiving_.begin(), receiving_.end());
    sending_.clear();
    receiving_.clear();
    return works;
  }

 private:
  using Receiving = std::list<WorkPtr>::iterator;

  void post_send(at::Tensor bytes) {
    const int tag = payload_tag(static_cast<std::int64_t>(bytes.nbytes()));
    sending_.push_back(lane_.send(std::move(bytes), process_, tag));
  }

  // Nothing when the link ends.
  std::optional<Receiving> post_receive(const at::Tensor& bytes, int tag) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return std::nullopt;
    try {
      return receiving_.insert(receiving_.end(), lane_.receive(bytes, process_, tag));
    } catch (const std::exception& error) {
      throw ConnectionLost{reason_of(error)};
    }
  }
  // False when the link ends.
  bool finish(std::optional<Receiving> receiving) {
    if (!receiving) return false;
    const WorkPtr work = **receiving;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
    }
    try {
      if (!work->wait(kForever)) return false;
    } catch (const std::exception& error) {
      throw ConnectionLost{reason_of(error)};
    }
    const std::lock_guard lock(mutex_);
    receiving_.erase(*receiving);
    return true;
  }

  void receive_frames(LinkReceiver& receiver) noexcept {
    try {
      struct Posted {
        at::Tensor bytes;
        std::optional<Receiving> receiving;
      };
      std::deque<Posted> posted;
      // Data that arrived before the connection went is read first: it may say goodbye.
      const auto post = [&](at::Tensor bytes) {
        try {
          posted.push_back({bytes, post_receive(bytes, kHeaderTag)});
        } catch (const ConnectionLost&) {
          if (posted.empty()) throw;
        }
      };
      for (int i = 0; i < kPostedHeaders; ++i) post(bytes_tensor(kHeaderBytes));
      for (;;) {
        Posted first = std::move(posted.front());
        posted.pop_front();
        if (!finish(first.receiving)) return;
        std::optional<Frame> frame;
        {
          const CountsAs ranks(receiver);
          frame = take_frame(first.bytes, receiver);
        }
        if (!frame) return;
        post(std::move(first.bytes));
        const CountsAs ranks(receiver);
        receiver.deliver(process_, std::move(*frame));
      }
    } catch (const ConnectionLost& lost) {
      {
        const std::lock_guard lock(mutex_);
        broken_ = true;
        if (closed_ || ended_) {
          changed_.notify_all();
          return;
        }
      }
      changed_.notify_all();
      receiver.lost(process_, lost.how);
    } catch (...) {
      receiver.wrong(process_, std::current_exception());
    }
  }

  // Nothing when no other frame will come.
  std::optional<Frame> take_frame(const at::Tensor& header, LinkReceiver& receiver) {
    const auto* at = static_cast<const char*>(header.const_data_ptr());
    Prefix prefix;
    std::memcpy(&prefix, at, sizeof prefix);
    at += sizeof prefix;
    const std::uint64_t room = kHeaderBytes - sizeof prefix;
    const bool sane = prefix.magic == kMagic && prefix.outline_inside <= 1 &&
                      prefix.payload_inside <= prefix.outline_inside &&
                      prefix.outline_bytes <= (prefix.outline_inside ? room : kMaxOutlineBytes);
    if (!sane) {
      throw Error(ErrorKind::kPeer, {.what = "a header makes no sense: it is none of ours",
                                     .where = "from " + name_});
    }
    std::string text;
    if (prefix.outline_inside) {
      text.assign(at, prefix.outline_bytes);
      at += prefix.outline_bytes;
    } else {
      const auto size = static_cast<std::int64_t>(prefix.outline_bytes);
      const at::Tensor bytes = bytes_tensor(rounded(size));
      if (!finish(post_receive(bytes, payload_tag(size)))) return std::nullopt;
      text = text_of(bytes).substr(0, prefix.outline_bytes);
    }
    FrameOutline outline = read_outline(std::move(text), "from " + name_);
    if (std::holds_alternative<GoodbyeHead>(outline.head)) {
      end();
      return std::nullopt;
    }
    if (const auto* abort = std::get_if<AbortHead>(&outline.head)) {
      end();
      receiver.aborted(abort->failure);
      return std::nullopt;
    }
    receiver.check(process_, outline);
    if (prefix.payload_inside) {
      std::int64_t inside = 0;
      for (const TensorLayout& layout : outline.layouts) {
        inside += layout.num_bytes();
        if (inside > static_cast<std::int64_t>(room - prefix.outline_bytes)) {
          throw Error(ErrorKind::kPeer,
                      {.what = "a header makes no sense: its tensors are longer than it is",
                       .where = "from " + name_});
        }
      }
    }

    // All receives are posted before the first is waited for.
    std::vector<at::Tensor> arrived;
    std::vector<std::optional<Receiving>> receives;
    for (const TensorLayout& layout : outline.layouts) {
      arrived.push_back(layout.defined() ? layout.allocate() : at::Tensor());
      if (layout.num_bytes() == 0) continue;
      if (prefix.payload_inside) {
        std::memcpy(arrived.back().mutable_data_ptr(), at,
                    static_cast<std::size_t>(layout.num_bytes()));
        at += layout.num_bytes();
      } else {
        receives.push_back(post_receive(arrived.back(), payload_tag(layout.num_bytes())));
      }
    }
    for (const std::optional<Receiving>& receiving : receives) {
      if (!finish(receiving)) return std::nullopt;
    }
    Frame frame{std::move(outline.head), {}};
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      const TensorLayout& layout = outline.layouts[i];
      frame.tensors.push_back(layout.defined() ? layout.restore(arrived[i]) : at::Tensor());
    }
    return frame;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  // Gloo needs the bytes and their Work until they have left.
  void release_sent(const LinkReceiver& receiver) noexcept {
    for (;;) {
      WorkPtr work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !sending_.empty() || stopping_; });
        if (stopping_) return;
        work = sending_.front();
      }
      bool sent = false;
      try {
        sent = work->wait(kForever);
      } catch (const std::exception&) {
      }
      {
        const std::lock_guard lock(mutex_);
        if (sent) {
          const CountsAs ranks(receiver);
          work.reset();
          sending_.pop_front();
        } else {
          broken_ = true;  // the receiver says so
        }
      }
      changed_.notify_all();
      if (!sent) return;
    }
  }

  void join() {
    if (receiver_thread_.joinable()) receiver_thread_.join();
    if (reaper_thread_.joinable()) reaper_thread_.join();
  }

  Lane& lane_;
  const int process_;
  const std::string name_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkPtr> sending_;   // in their order, until they have left
  std::list<WorkPtr> receiving_;  // posted and not finished
  bool closed_ = false;           // nothing is sent any more
  bool ended_ = false;            // the other process sends nothing any more
  bool broken_ = false;           // the connection is gone
  bool stopping_ = false;         // no wait goes on
  std::thread receiver_thread_, reaper_thread_;
};

class GlooLink final : public Link {
 public:
  GlooLink(const c10::intrusive_ptr<c10d::Store>& store, GlooLinkOptions options)
      : options_(std::move(options)) {
    const NoSigpipe no_sigpipe;  // Gloo's thread, too
    const auto give_up = std::chrono::steady_clock::now() + options_.deadline;
    const auto device = make_device();
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
      const auto group_options = ProcessGroupGloo::Options::create(options_.deadline);
      group_options->devices = {device};
      group_options->threads = 0;  // only Gloo's own collectives need them
      try {
        lanes_[lane].group = c10::make_intrusive<ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(connection(lane), store), options_.process,
            options_.num_processes, group_options);
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        throw Error(ErrorKind::kPeer,
                    {.what = formatted("not all of {} came together within {} ms: {}",
                                       counted(options_.num_processes, "process"),
                                       options_.deadline.count(), reason_of(error)),
                     .where = name_of(options_.process) + ", connection '" + options_.name + "'",
                     .remedy = "look at the processes that are missing, and at the network "
                               "between them"});
      }
    }
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) prove(lane, give_up);
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
      for (int process = 0; process < options_.num_processes; ++process) {
        peer_lanes_[lane].push_back(
            process == options_.process
                ? nullptr
                : std::make_unique<PeerLane>(lanes_[lane], process, name_of(process)));
      }
    }
  }

  ~GlooLink() override {
    if (!closer_.joinable()) return;  // never started
    request({});
    closer_.join();
  }

  void start(LinkReceiver& receiver) override {
    for_each_peer([&](PeerLane& peer) { peer.start(receiver); });
    closer_ = std::thread([this] { close_when_told(); });  // last: it joins the others
  }

  void send(int process, Frame frame) override {
    const std::size_t lane = std::holds_alternative<MessageHead>(frame.head) ? 0 : 1;
    peer_lanes_[lane][process]->send(frame);
  }

  void abort(const Failure& failure) noexcept override { request(failure); }

 private:
  std::string name_of(int process) const {
    return process_text(process, options_.num_processes, options_.num_ranks);
  }
  std::string connection(std::size_t lane) const { return options_.name + "/" + kLaneNames[lane]; }

  std::shared_ptr<::gloo::transport::Device> make_device() const {
    const std::string host = options_.host.empty() ? "127.0.0.1" : options_.host;
    try {
      return ProcessGroupGloo::createDeviceForHostname(host);
    } catch (const std::exception& by_address) {
      try {
        return ProcessGroupGloo::createDeviceForInterface(host);
      } catch (const std::exception&) {
        throw Error(ErrorKind::kUsage,
                    {.what = formatted("cannot listen on '{}': {}", host, reason_of(by_address)),
                     .where = name_of(options_.process),
                     .remedy = "name an address or an interface of this machine"});
      }
    }
  }

  // Both ends of every connection of a lane show that they know the secret.
  void prove(std::size_t lane, std::chrono::steady_clock::time_point give_up) {
    struct Peer {
      int process;
      at::Tensor nonce = bytes_tensor(kPairNonceBytes), proof = bytes_tensor(kPairProofBytes);
      PairEnd own;
    };
    std::vector<Peer> peers;
    for (int process = 0; process < options_.num_processes; ++process) {
      if (process != options_.process) {
        peers.push_back({process});
        peers.back().own = make_pair_end(options_.process);
      }
    }
    // Dropped after the group: Gloo may still use them.
    std::vector<WorkPtr> works;
    const auto finish = [&](const Peer& peer, const WorkPtr& work) {
      const auto left =
          std::chrono::duration_cast<Milliseconds>(give_up - std::chrono::steady_clock::now());
      try {
        if (work->wait(std::max(left, Milliseconds(1)))) return;
      } catch (const std::exception& error) {
        refuse_peer(peer.process,
                    "did not show that it knows the secret of the job (" + reason_of(error) + ")");
      }
      refuse_peer(peer.process, "did not show that it knows the secret of the job");
    };
    try {
      const auto exchange = [&](int tag, auto&& own, auto&& theirs) {
        std::vector<std::pair<WorkPtr, WorkPtr>> of_peer;
        for (Peer& peer : peers) {
          of_peer.emplace_back(lanes_[lane].receive(theirs(peer), peer.process, tag),
                               lanes_[lane].send(copied(own(peer)), peer.process, tag));
          works.push_back(of_peer.back().first);
          works.push_back(of_peer.back().second);
        }
        for (std::size_t i = 0; i < peers.size(); ++i) {
          finish(peers[i], of_peer[i].first);
          finish(peers[i], of_peer[i].second);
        }
      };
      exchange(
          kNonceTag, [](const Peer& peer) { return peer.own.nonce; },
          [](const Peer& peer) { return peer.nonce; });
      const auto proof = [&](const Peer& peer, bool own) {
        const PairEnd& here = peer.own;
        const PairEnd there{peer.process, text_of(peer.nonce)};
        return pair_proof(options_.secret, connection(lane), own ? here : there,
                          own ? there : here);
      };
      exchange(
          kProofTag, [&](const Peer& peer) { return proof(peer, true); },
          [](const Peer& peer) { return peer.proof; });
      for (const Peer& peer : peers) {
        if (!same_bytes(text_of(peer.proof), proof(peer, false)))
          refuse_peer(peer.process, "does not know the secret of the job");
      }
    } catch (...) {
      for (Lane& each : lanes_) each.group.reset();
      throw;
    }
  }

  [[noreturn]] void refuse_peer(int process, const std::string& what) const {
    throw Error(
        ErrorKind::kPeer,
        {.what = formatted("the other end of the connection to {} {}", name_of(process), what),
         .where = name_of(options_.process),
         .remedy = "a stranger may have taken the connection: start again, on a network "
                   "that others cannot reach"});
  }

  template <typename Do>
  void for_each_peer(Do&& act) {
    for (auto& lane : peer_lanes_) {
      for (auto& peer : lane) {
        if (peer) act(*peer);
      }
    }
  }

  // The first request counts.
  void request(std::optional<Failure> failure) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (requested_) return;
      requested_ = true;
      failure_ = std::move(failure);
    }
    told_.notify_all();
  }

  void close_when_told() noexcept {
    std::optional<Failure> failure;
    {
      std::unique_lock lock(mutex_);
      told_.wait(lock, [&] { return requested_; });
      failure = failure_;
    }
    Frame last{GoodbyeHead{}, {}};
    if (failure) last.head = AbortHead{*failure};
    for_each_peer([&](PeerLane& peer) { peer.send_last(last); });
    const auto until = std::chrono::steady_clock::now() + (failure ? kFarewell : options_.deadline);
    for_each_peer([&](PeerLane& peer) { peer.flush(until); });
    for_each_peer([](PeerLane& peer) { peer.stop(); });
    // A message for a Work that is gone keeps Gloo's thread spinning: groups go first.
    std::vector<WorkPtr> works;
    for_each_peer([&](PeerLane& peer) {
      for (WorkPtr& work : peer.leftovers()) works.push_back(std::move(work));
    });
    for (Lane& lane : lanes_) lane.group.reset();
  }

  const GlooLinkOptions options_;
  std::array<Lane, kNumLanes> lanes_;
  std::array<std::vector<std::unique_ptr<PeerLane>>, kNumLanes> peer_lanes_;  // by process

  std::mutex mutex_;
  std::condition_variable told_;
  bool requested_ = false;
  std::optional<Failure> failure_;
  std::thread closer_;
};

}  // namespace

std::unique_ptr<Link> make_gloo_link(const c10::intrusive_ptr<c10d::Store>& store,
                                     GlooLinkOptions options) {
  return std::make_unique<GlooLink>(store, std::move(options));
}

}  // namespace sluice
