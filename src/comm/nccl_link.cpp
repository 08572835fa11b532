#include "comm/nccl_link.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using nccl::Result;

constexpr std::array<const char*, NcclLink::kNumLanes> kWords = {"messages", "collectives"};
constexpr std::chrono::microseconds kBetweenAsks{50};
constexpr std::chrono::milliseconds kBetweenLooks{1};
constexpr std::chrono::milliseconds kFarewell{1000};

// Tells the allocator that transfers on `stream` may still read the sent tensors.
void let_go(const std::vector<at::Tensor>& sent, const c10::Stream& stream) {
  for (const at::Tensor& tensor : sent) tensor.record_stream(stream);
}

}  // namespace

NcclLink::NcclLink(c10d::Store& store, NcclLinkOptions options) : options_(std::move(options)) {
  for (auto* side : {&sending_, &receiving_}) {
    for (auto& lane : *side) lane.resize(static_cast<std::size_t>(options_.num_processes));
  }
  try {
    connect(store);
  } catch (...) {
    stop();
    close(/*failed=*/true);
    throw;
  }
}

NcclLink::~NcclLink() {
  stop();
  close(/*failed=*/true);
}

void NcclLink::connect(c10d::Store& store) {
  const c10::DeviceGuard on_device(options_.device);
  const c10::impl::VirtualGuardImpl device(options_.device.type());
  const auto give_up = Clock::now() + options_.deadline;
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
    for (int from = 0; from < options_.num_processes; ++from) {
      for (int to = 0; to < options_.num_processes; ++to) {
        if (from == to || (from != options_.process && to != options_.process)) continue;
        auto made = std::make_unique<Channel>();
        made->name = formatted("{} from process {} to process {}", kWords[lane], from, to);
        made->sends = from == options_.process;
        made->process = made->sends ? to : from;
        made->stream = device.getStreamFromGlobalPool(options_.device, /*isHighPriority=*/false);
        Channel& channel = *made;
        (made->sends ? sending_ : receiving_)[lane][static_cast<std::size_t>(made->process)] =
            std::move(made);

        nccl::UniqueId id{};
        const std::string key = formatted("{}/nccl/{}/{}/{}", options_.name, lane, from, to);
        if (channel.sends) {
          require(channel, options_.table->get_unique_id(&id), "ncclGetUniqueId");
          store.set(key, std::vector<std::uint8_t>(id.bytes.begin(), id.bytes.end()));
        } else {
          const std::vector<std::uint8_t> bytes = store.get(key);
          if (bytes.size() != id.bytes.size())
            require(channel, nccl::kInvalidArgument, "ncclGetUniqueId");
          std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
        }
        settle(channel, options_.table->comm_init_rank(&channel.comm, 2, id, channel.sends ? 0 : 1),
               "ncclCommInitRankConfig", give_up);
      }
    }
  }
}

void NcclLink::start(LinkReceiver& receiver) {
  receiver_ = &receiver;
  watcher_ = std::thread([this] { watch(); });
}

NcclLink::Channel& NcclLink::channel(std::size_t lane, int process, bool sends) const {
  return *(sends ? sending_ : receiving_)[lane][static_cast<std::size_t>(process)];
}

c10::Stream NcclLink::stream_from(std::size_t lane, int process) const {
  return *channel(lane, process, /*sends=*/false).stream;
}

void NcclLink::send(std::size_t lane, int process, const std::vector<at::Tensor>& tensors,
                    const Ready& ready) {
  Channel& to = channel(lane, process, /*sends=*/true);
  ready.wait_on(*to.stream);
  std::vector<Give> parts;
  parts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    parts.emplace_back([this, &tensor](nccl::Comm comm, nccl::Stream stream) {
      return options_.table->send(tensor.const_data_ptr(), tensor.nbytes(), /*peer=*/1, comm,
                                  stream);
    });
  }
  transfer(to, parts, tensors);
}

void NcclLink::receive(std::size_t lane, int process, const std::vector<at::Tensor>& tensors,
                       const std::vector<std::int64_t>& num_bytes) {
  std::vector<Give> parts;
  parts.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts.emplace_back([this, memory = tensors[i].mutable_data_ptr(), bytes = num_bytes[i]](
                           nccl::Comm comm, nccl::Stream stream) {
      return options_.table->receive(memory, static_cast<std::size_t>(bytes), /*peer=*/0, comm,
                                     stream);
    });
  }
  transfer(channel(lane, process, /*sends=*/false), parts, {});
}

void NcclLink::transfer(Channel& channel, const std::vector<Give>& parts,
                        const std::vector<at::Tensor>& sent) {
  const auto give_up = Clock::now() + options_.transfer_deadline();
  const char* const call = channel.sends ? "ncclSend" : "ncclRecv";
  Result result = nccl::kSuccess;
  {
    const std::lock_guard lock(channel.calls);
    if (stopped_ || channel.is_gone) throw Stopped{};
    require(channel, options_.table->group_start(), "ncclGroupStart");
    for (const Give& part : parts) {
      result = part(channel.comm, channel.stream->native_handle());
      if (result != nccl::kSuccess && result != nccl::kInProgress) break;
    }
    // also after an error, to close the NCCL group
    const Result ended = options_.table->group_end();
    if (result == nccl::kSuccess || result == nccl::kInProgress) result = ended;
  }
  try {
    settle(channel, result, call, give_up);
    const std::lock_guard lock(channel.calls);
    if (channel.is_gone) throw Stopped{};
    Transfer begun{sent, c10::Event(options_.device.type()), give_up};
    begun.ended.record(*channel.stream);
    channel.under_way.push_back(std::move(begun));
    const std::lock_guard counting(mutex_);
    ++num_under_way_;
  } catch (...) {
    let_go(sent, *channel.stream);
    throw;
  }
  changed_.notify_all();
}

void NcclLink::settle(Channel& channel, Result result, const char* call,
                      Clock::time_point give_up) {
  while (result == nccl::kInProgress) {
    if (Clock::now() > give_up) refuse_late(channel, call);
    std::this_thread::sleep_for(kBetweenAsks);
    const std::lock_guard lock(channel.calls);
    if (stopped_ || channel.is_gone) throw Stopped{};
    require(channel, options_.table->get_async_error(channel.comm, &result), call);
  }
  require(channel, result, call);
}

void NcclLink::require(const Channel& channel, Result result, const char* call) const {
  if (result == nccl::kSuccess) return;
  throw Error(ErrorKind::kPeer,
              {.what = formatted("NCCL fails in {}: {}", call, options_.table->error_text(result)),
               .where = formatted("process {}, {}", options_.process, channel.name),
               .remedy = formatted("look at process {}, set NCCL_DEBUG=WARN for NCCL's messages, "
                                   "or set parallelism.transport = \"gloo\"",
                                   channel.process)});
}

void NcclLink::refuse_late(const Channel& channel, const char* call) const {
  throw Error(
      ErrorKind::kPeer,
      {.what = formatted("{} does not end in time: process {} takes no part in it, or a device "
                         "hangs",
                         call, channel.process),
       .where = formatted("process {}, {}", options_.process, channel.name),
       .remedy = formatted("look at what process {} is doing", channel.process)});
}

void NcclLink::watch() noexcept {
  const c10::DeviceGuard on_device(options_.device);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return num_under_way_ > 0 || stopped_; });
      changed_.wait_for(lock, kBetweenLooks, [&] { return stopped_.load(); });
      if (stopped_) return;
    }
    for (auto* side : {&sending_, &receiving_}) {
      for (auto& lane : *side) {
        for (auto& channel : lane) {
          if (!channel) continue;
          try {
            look_at(*channel);
          } catch (...) {
            // The receiver aborts the link, which ends this thread.
            receiver_->wrong(channel->process, std::current_exception());
          }
        }
      }
    }
  }
}

void NcclLink::look_at(Channel& channel) {
  const std::lock_guard lock(channel.calls);
  if (stopped_ || channel.is_gone || channel.under_way.empty()) return;
  std::size_t ended = 0;
  while (!channel.under_way.empty() && channel.under_way.front().ended.query()) {
    const Transfer& done = channel.under_way.front();
    if (!done.sent.empty()) done.ended.synchronize();
    channel.under_way.pop_front();
    ++ended;
  }
  if (ended > 0) {
    {
      const std::lock_guard counting(mutex_);
      num_under_way_ -= ended;
    }
    changed_.notify_all();
  }
  if (channel.under_way.empty()) return;
  const char* const call = channel.sends ? "ncclSend" : "ncclRecv";
  Result error = nccl::kSuccess;
  require(channel, options_.table->get_async_error(channel.comm, &error), call);
  if (error != nccl::kInProgress) require(channel, error, call);
  if (Clock::now() > channel.under_way.front().give_up) refuse_late(channel, call);
}

void NcclLink::gone(std::size_t lane, int process) {
  Channel& to = channel(lane, process, /*sends=*/true);
  {
    const std::lock_guard lock(to.calls);
    to.is_gone = true;
    const std::lock_guard counting(mutex_);
    num_under_way_ -= to.under_way.size();
  }
  changed_.notify_all();
}

bool NcclLink::flush(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [&] { return num_under_way_ == 0 || stopped_; });
}

void NcclLink::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void NcclLink::close(bool failed) noexcept {
  if (watcher_.joinable()) watcher_.join();
  const c10::DeviceGuard on_device(options_.device);
  const auto give_up = Clock::now() + kFarewell;
  std::vector<Channel*> ending;
  for (auto* side : {&sending_, &receiving_}) {
    for (auto& lane : *side) {
      for (auto& channel : lane) {
        if (!channel) continue;
        const std::lock_guard lock(channel->calls);
        if (!channel->comm) continue;
        for (const Transfer& given_up : channel->under_way) let_go(given_up.sent, *channel->stream);
        const Result result = failed || !channel->under_way.empty()
                                  ? nccl::kInternalError
                                  : options_.table->comm_finalize(channel->comm);
        if (result == nccl::kSuccess || result == nccl::kInProgress)
          ending.push_back(channel.get());
        else
          options_.table->comm_abort(std::exchange(channel->comm, nullptr));
      }
    }
  }
  for (Channel* const channel : ending) {
    const std::lock_guard lock(channel->calls);
    Result result = nccl::kInProgress;
    while (options_.table->get_async_error(channel->comm, &result) == nccl::kSuccess &&
           result == nccl::kInProgress && Clock::now() < give_up) {
      std::this_thread::sleep_for(kBetweenAsks);
    }
    const nccl::Comm comm = std::exchange(channel->comm, nullptr);
    if (result == nccl::kSuccess)
      options_.table->comm_destroy(comm);
    else
      options_.table->comm_abort(comm);
  }
}

}  // namespace sluice
