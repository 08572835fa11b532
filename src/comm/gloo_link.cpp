#include "comm/gloo_link.h"

#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "comm/gloo_lane.h"
#include "comm/nccl_link.h"
#include "comm/no_sigpipe.h"
#include "comm/pair_proof.h"
#include "comm/process_ranks.h"
#include "job/sha256.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using namespace detail;
using c10d::ProcessGroupGloo;
using Milliseconds = std::chrono::milliseconds;

constexpr std::size_t kNumLanes = NcclLink::kNumLanes;
constexpr std::array<const char*, kNumLanes> kLaneNames = {"messages", "collectives"};
// Time for other processes to receive a failure before the link closes.
constexpr Milliseconds kFarewell{1000};

class GlooLink final : public Link {
 public:
  GlooLink(const c10::intrusive_ptr<c10d::Store>& store, GlooLinkOptions options)
      : options_(std::move(options)) {
    const NoSigpipe no_sigpipe;  // Gloo's threads inherit it
    const auto give_up = std::chrono::steady_clock::now() + options_.deadline;
    const auto device = make_device();
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
      const auto group_options = ProcessGroupGloo::Options::create(options_.deadline);
      group_options->devices = {device};
      group_options->threads = 0;
      try {
        lanes_[lane].group = c10::make_intrusive<ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(connection(lane), store), options_.process,
            options_.num_processes, group_options);
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        throw Error(ErrorKind::kPeer,
                    {.what = formatted("not all of {} connected within {} ms: {}",
                                       counted(options_.num_processes, "process"),
                                       options_.deadline.count(), reason_of(error)),
                     .where = name_of(options_.process) + ", connection '" + options_.name + "'",
                     .remedy = "check the missing processes and the network between them"});
      }
    }
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) prove(lane, give_up);
    if (options_.nccl) {
      try {
        nccl_ = std::make_unique<NcclLink>(
            *store, NcclLinkOptions{options_.nccl, options_.device, options_.num_processes,
                                    options_.process, options_.name, options_.transfer_deadline(),
                                    options_.transfer_deadline});
      } catch (...) {
        for (Lane& each : lanes_) each.group.reset();
        throw;
      }
    }
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
      lanes_[lane].number = lane;
      lanes_[lane].nccl = nccl_.get();
      for (int process = 0; process < options_.num_processes; ++process) {
        peer_lanes_[lane].push_back(
            process == options_.process
                ? nullptr
                : std::make_unique<PeerLane>(lanes_[lane], process, name_of(process)));
      }
    }
  }

  ~GlooLink() override {
    if (!closer_.joinable()) return;
    request({});
    closer_.join();
  }

  void start(LinkReceiver& receiver) override {
    if (nccl_) nccl_->start(receiver);
    for_each_peer([&](PeerLane& peer) { peer.start(receiver); });
    // last, because this thread joins the others
    closer_ = std::thread([this] { close_when_told(); });
  }

  void send(int process, Frame frame) override {
    const std::size_t lane = std::holds_alternative<MessageHead>(frame.head) ? 0 : 1;
    peer_lanes_[lane][process]->send(frame);
  }

  void abort(const Failure& failure) noexcept override {
    if (nccl_) nccl_->stop();
    request(failure);
  }

 private:
  std::string name_of(int process) const {
    return process_text(process, options_.num_processes, options_.num_ranks);
  }
  std::string connection(std::size_t lane) const { return options_.name + "/" + kLaneNames[lane]; }

  std::shared_ptr<::gloo::transport::Device> make_device() const {
    if (options_.listens_as_host) return ProcessGroupGloo::createDefaultDevice();
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
    // Gloo may use this Work until the group is destroyed.
    std::vector<WorkPtr> works;
    const auto finish = [&](const Peer& peer, const WorkPtr& work) {
      const auto left =
          std::chrono::duration_cast<Milliseconds>(give_up - std::chrono::steady_clock::now());
      try {
        if (work->wait(std::max(left, Milliseconds(1)))) return;
      } catch (const std::exception& error) {
        refuse_peer(peer.process,
                    "did not prove that it has the secret of the job (" + reason_of(error) + ")");
      }
      refuse_peer(peer.process, "did not prove that it has the secret of the job");
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
          refuse_peer(peer.process, "does not have the secret of the job");
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
         .remedy =
             "a foreign program may have taken the connection: start again on a private network"});
  }

  template <typename Do>
  void for_each_peer(Do&& act) {
    for (auto& lane : peer_lanes_) {
      for (auto& peer : lane) {
        if (peer) act(*peer);
      }
    }
  }

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
    // A rank may wait for the device, which may wait for an NCCL transfer. Closing NCCL ends both
    // waits.
    if (nccl_ && failure) nccl_->close(/*failed=*/true);
    const auto until = std::chrono::steady_clock::now() + (failure ? kFarewell : options_.deadline);
    for_each_peer([&](PeerLane& peer) { peer.flush(until); });
    if (nccl_) {
      nccl_->flush(until);
      nccl_->stop();
    }
    for_each_peer([](PeerLane& peer) { peer.stop(); });
    if (nccl_) nccl_->close(/*failed=*/false);
    // Destroy the groups before the Work of messages. Gloo's thread would otherwise spin.
    std::vector<WorkPtr> works;
    for_each_peer([&](PeerLane& peer) {
      for (WorkPtr& work : peer.leftovers()) works.push_back(std::move(work));
    });
    for (Lane& lane : lanes_) lane.group.reset();
  }

  const GlooLinkOptions options_;
  std::unique_ptr<NcclLink> nccl_;  // declared first: the lanes' threads use it
  std::array<Lane, kNumLanes> lanes_;
  std::array<std::vector<std::unique_ptr<PeerLane>>, kNumLanes> peer_lanes_;  // [lane][process]

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
