#include "comm/c10d_store.h"

#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

class C10dJobStore final : public c10d::Store {
 public:
  using c10d::Store::compareSet, c10d::Store::set;

  C10dJobStore(std::shared_ptr<StoreClient> client, std::chrono::milliseconds timeout)
      : Store(timeout), client_(std::move(client)) {}

  c10::intrusive_ptr<Store> clone() override {
    return c10::make_intrusive<C10dJobStore>(
        std::make_shared<StoreClient>(client_->address(), client_->secret(), timeout_), timeout_);
  }
  void set(const std::string& key, const Bytes& value) override { client_->set(key, text(value)); }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return bytes(client_->compare_set(key, text(expected), text(desired)));
  }
  Bytes get(const std::string& key) override { return bytes(client_->get(key, timeout_)); }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return client_->add(key, amount);
  }
  bool deleteKey(const std::string& key) override { return client_->remove(key); }
  bool check(const std::vector<std::string>& keys) override { return client_->has(keys); }
  std::int64_t getNumKeys() override { return client_->num_keys(); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    if (client_->wait(keys, timeout)) return;
    C10_THROW_ERROR(DistStoreError, formatted("no process has set '{}' within {} ms",
                                              keys.empty() ? "" : keys.front(), timeout.count()));
  }
  void append(const std::string& key, const Bytes& value) override {
    client_->append(key, text(value));
  }
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    std::vector<Bytes> values;
    for (const std::string& key : keys) values.push_back(get(key));
    return values;
  }
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override {
    for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
  }
  bool hasExtendedApi() const override { return true; }

 private:
  std::shared_ptr<StoreClient> client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_job_store(std::shared_ptr<StoreClient> client,
                                               std::chrono::milliseconds timeout) {
  return c10::make_intrusive<C10dJobStore>(std::move(client), timeout);
}

}  // namespace sluice
