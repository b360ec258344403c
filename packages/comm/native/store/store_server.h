// The server of a job's store. It keeps the keys that ranks set for each other, and knows which ranks are
// alive and why the job fails. It has one thread, in the launcher of the first node or in rank 0, and never
// waits for JavaScript. A peer must prove that it knows the job's secret. Before the proof, the peer can use
// no resources except its socket.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "store/message.h"
#include "store/refusal_log.h"
#include "store/sockets.h"

namespace mtl::comm::store {

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::vector<int> ports{0};  // the server takes the first free port; 0: any port
  std::string secret;
  int world_size = 1;
  int attempt = 0;     // the number of restarts of the job; ranks of other attempts are rejected
  int host_rank = -1;  // the rank that hosts the server; -1: a launcher
  std::string member = "rank";  // the word for a joining process in error messages
  int64_t heartbeat_limit_ns = 15000000000;  // the maximum time for which a rank may be silent
  int64_t join_limit_ns = 5000000000;        // the time limit to prove that the peer knows the secret
  int max_strangers = 64;                    // the limit of connections without proof; a new one replaces the oldest
  size_t max_keys = 65536;
  size_t max_bytes = size_t{256} << 20;  // the limit of all keys and values together
};

class StoreServer {
 public:
  static Status start(ServerOptions options, std::unique_ptr<StoreServer>* server);
  ~StoreServer();

  int port() const { return port_; }
  // Returns the reason why the job has failed; success if it has not failed.
  Status failure() const;
  // Makes the job fail for a reason that only this process knows. The first reason is kept.
  void abort(Failure failure);
  uint64_t num_refused() const { return num_refused_.load(); }
  // Waits until every rank that joined has left or is lost. Returns false at the timeout.
  bool wait_until_left(int64_t timeout_ns);

 private:
  struct Connection;
  struct Question {  // a request that waits for a key
    Connection* from;
    uint64_t id;
  };
  enum class Member { kNever, kThere, kLeft, kLost };

  explicit StoreServer(ServerOptions options);
  void serve();
  void obey();
  void accept_all();
  void read_from(Connection* connection);
  void handle(Connection* connection, const Message& message);
  void join(Connection* connection, const Message& message);
  void set(Connection* connection, const Message& message);
  void get(Connection* connection, const Message& message);
  void add(Connection* connection, const Message& message);
  bool store(Connection* connection, uint64_t id, const std::string& key, const std::string& value);
  void cancel(Connection* connection, uint64_t id);
  void send(Connection* connection, const Message& message);
  void flush(Connection* connection);
  void refuse(Connection* connection, Refusal refusal, const std::string& why, uint64_t id = 0);
  void refuse_stranger(Connection* connection, const std::string& why);
  void fail(Failure failure, const Connection* origin);
  void wake();
  void lose(Connection* connection, const char* how);
  void distrust(Connection* connection);
  void end(Connection* connection);
  void check_times();
  void sweep();
  void set_member(int rank, Member state);

  const ServerOptions options_;
  int port_ = 0;
  Descriptor listener_;
  Descriptor wake_;
  bool has_listener_failed_ = false;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<Question>> questions_;
  size_t num_bytes_ = 0;
  RefusalLog log_;
  int64_t last_check_ns_ = 0;
  std::atomic<uint64_t> num_refused_{0};
  std::atomic<bool> is_stopping_{false};
  mutable std::mutex mutex_;  // guards the next four fields, which other threads use
  std::condition_variable changed_;
  Status failure_;
  Status requested_;  // the reason given to abort(), for the server's thread
  std::vector<Member> members_;
  std::thread thread_;
};

}  // namespace mtl::comm::store
