// A connection to the store of a job: keys and values that its processes share.
//
// Owns: one authenticated TCP connection. Does not own: the server (store_server.h).
//
// Invariants:
//  1. Before anything else both sides prove that they know the secret (HMAC-SHA-256 over both
//     sides' random numbers); without it neither side learns or changes anything.
//  2. Every wait ends: by its value, by its deadline, because the server is gone (Error(kPeer)), or
//     because the job has failed, with its first failure. A value that exists is returned also
//     after a failure.
// Thread-safety: any thread may call; calls on one client wait for each other. Waiting calls of
// several threads need a client each.
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

  // Tries again until `timeout` while nobody listens there. Throws Error(kPeer): nobody answers, or
  // the other side does not know the secret.
  StoreClient(StoreAddress address, std::string secret, Milliseconds timeout);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  const StoreAddress& address() const;
  const std::string& secret() const;
  // The address of this machine from which the server is reached: "10.0.0.7". Others of the job
  // reach this process there.
  std::string own_host() const;

  // The time that an answer may take beyond what was asked to be waited for; half a minute at
  // first.
  void set_reply_time(Milliseconds time);
  // From now on waits continue although the job has failed: to meet once more and save the last
  // weights.
  void outlive_failure();

  void set(const std::string& key, const std::string& value);
  // Waits until the key is there. Throws Error(kPeer) naming the key after `timeout`.
  std::string get(const std::string& key, Milliseconds timeout);
  // False after `timeout`.
  bool wait(const std::vector<std::string>& keys, Milliseconds timeout);
  // Now.
  bool has(const std::vector<std::string>& keys);
  // A missing key counts as 0; the value is kept as decimal text. Returns the sum.
  std::int64_t add(const std::string& key, std::int64_t amount);
  // Sets `desired` where the value is `expected` (a missing key: where expected is ""). Returns
  // what is there then, `expected` for a key that stays missing.
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
