// A rank's connection to the store of its job. It gives access to keys, sends a heartbeat from its own thread
// (even if the main thread is busy), and passes aborts in both directions between the store and this
// process's abort state.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/job_state.h"
#include "store/message.h"
#include "store/sockets.h"

namespace mtl::comm::store {

struct ClientOptions {
  std::string address = "127.0.0.1";
  std::vector<int> ports;  // one of these ports is the store's; the others may belong to other programs
  std::string secret;
  int world_size = 1;
  int attempt = 0;
  std::string member = "rank";  // the word for a joining process in error messages
  int64_t timeout_ns = 60000000000;  // how long to look for the store
};

class StoreClient : public std::enable_shared_from_this<StoreClient> {
 public:
  // Connects to the store. `job` must outlive the client. Fails with MTL_STORE_UNREACHABLE, which contains
  // the result of the last attempt, or with MTL_STORE_REFUSED.
  static Status connect(JobState* job, const ClientOptions& options, std::shared_ptr<StoreClient>* client);
  ~StoreClient();

  // If the job has been aborted, the following functions fail with the reason for the abort.
  Status set(const std::string& key, const std::string& value);
  // Waits for the key and returns its value. Returns MTL_TIMEOUT, which names the key, if no rank sets it.
  // May be called from any thread.
  Status get(const std::string& key, int64_t timeout_ns, std::string* value);
  Status find(const std::string& key, bool* is_there, std::string* value);
  Status add(const std::string& key, int64_t delta, int64_t* sum);

  // After an abort of this process, waits until the store has informed the other ranks; then this process may
  // end.
  void wait_until_told(int64_t timeout_ns);
  // Leaves the job cleanly. If the job is aborted, the function only closes the connection. Must be called
  // before the last reference is released, because the client's thread may briefly own a reference and cannot
  // wait for itself.
  void close();

 private:
  struct Request {
    bool is_done = false;
    Message answer;
  };
  // A connection on which both ends have proved that they know the secret.
  struct Joined {
    Descriptor socket;
    MessageReader reader{kMaxFrameBytes};
    std::optional<Seal> seal;
    Message welcome;
    int port = 0;
  };
  // Why a port has no such connection.
  enum class Obstacle { kOther, kVersion, kFinal };

  StoreClient(JobState* job, const ClientOptions& options, Joined joined);
  static Status join(const ClientOptions& options, int rank, int64_t deadline, Joined* joined, Obstacle* obstacle);
  void run();
  void receive();
  void handle(const Message& message);
  void check_times();
  void flush();
  void lose(const std::string& how);
  void distrust();
  void end();
  void post(const Message& message);
  void on_abort(const Failure& failure);
  Status ask(Message question, int64_t timeout_ns, Message* answer);
  void wake();

  JobState* const job_;
  const std::string member_;
  const std::string place_;  // the address and port of the store
  Descriptor socket_;
  Descriptor wake_;
  MessageReader reader_;
  int host_rank_ = -1;
  int64_t heartbeat_limit_ns_ = 0;
  int64_t heard_ns_ = 0;
  int64_t told_ns_ = 0;
  int64_t last_check_ns_ = 0;

  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::string unsent_;
  Seal seal_;  // the seal of sent messages, in the order of unsent_
  std::unordered_map<uint64_t, Request> requests_;
  uint64_t next_id_ = 1;
  uint64_t abort_id_ = 0;  // the request id of this process's abort
  bool is_receiving_abort_ = false;
  bool is_told_ = false;  // true if the store knows of the abort
  bool is_leaving_ = false;
  bool is_lost_ = false;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace mtl::comm::store
