// A connection to the key-value store of a job. A wait ends with the value, at its deadline, with
// Error(kPeer) if the server is gone, or with the job's first failure. Existing values are returned
// even after a failure. Thread-safe, but calls on one client run one after another.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

struct StoreAddress {
  std::string host;
  int port = 0;
};

class StoreClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Retries until `timeout`. Throws Error(kPeer) if the server does not answer or has another
  // secret.
  StoreClient(StoreAddress address, std::string secret, Milliseconds timeout);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  const StoreAddress& address() const;
  const std::string& secret() const;
  // This machine's address for others: "10.0.0.7".
  std::string own_host() const;

  // Time for an answer beyond a call's timeout; 30 seconds by default.
  void set_reply_time(Milliseconds time);
  // From now on waits continue after a failure, so that processes can meet and save.
  void outlive_failure();

  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key, Milliseconds timeout);
  // False after `timeout`.
  bool wait(const std::vector<std::string>& keys, Milliseconds timeout);
  bool has(const std::vector<std::string>& keys);
  // Returns the sum. Values are decimal text; a missing key counts as 0.
  std::int64_t add(const std::string& key, std::int64_t amount);
  // Sets the key if its value is `expected`; a missing key matches "". Returns the value
  // afterwards, or `expected` if the key is missing.
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired);
  void append(const std::string& key, const std::string& value);
  bool remove(const std::string& key);
  std::int64_t num_keys();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
