#include "comm/torchrun_board.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class TorchrunBoard final : public NoticeBoard {
 public:
  TorchrunBoard(c10::intrusive_ptr<c10d::TCPStore> store, std::string key, std::string address)
      : store_(std::move(store)), key_(std::move(key)), address_(std::move(address)) {}

  void put(const std::string& text) override {
    guarded([&] { store_->set(key_, {text.begin(), text.end()}); });
  }
  std::string get(std::chrono::milliseconds timeout) override {
    return guarded([&] {
      store_->wait({key_}, timeout);
      const std::vector<std::uint8_t> bytes = store_->get(key_);
      return std::string(bytes.begin(), bytes.end());
    });
  }

 private:
  template <typename Call>
  auto guarded(const Call& call) -> decltype(call()) {
    try {
      return call();
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kPeer, {.what = "the store of torchrun's agent gave no answer: " +
                                             first_line(error.what()),
                                     .where = address_,
                                     .remedy = "check what process 0 is doing"});
    }
  }

  c10::intrusive_ptr<c10d::TCPStore> store_;
  const std::string key_, address_;
};

}  // namespace

std::unique_ptr<NoticeBoard> make_torchrun_board(const LaunchEnvironment& environment,
                                                 std::chrono::milliseconds timeout) {
  const std::string address =
      formatted("{}:{}", environment.master_address, environment.master_port);
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(environment.master_port);
  options.isServer = false;
  options.timeout = timeout;
  try {
    // After a restart the store still has the old keys, so use another prefix.
    return std::make_unique<TorchrunBoard>(
        c10::make_intrusive<c10d::TCPStore>(environment.master_address, options),
        "sluice/" + std::to_string(environment.restart), address);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kPeer,
                {.what = "cannot reach the store of torchrun's agent: " + first_line(error.what()),
                 .where = address,
                 .remedy = "start all processes with torchrun"});
  }
}

}  // namespace sluice
