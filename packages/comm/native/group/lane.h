// A queue of operations, which are executed in the order in which they were started. The thread that waits
// for an operation executes it. If no thread waits and other members may depend on the operation, the lane's
// own thread executes it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "group/communicator.h"

namespace mtl::comm {

// One operation that has been started. The lane and the program's `Work` share it.
struct Task {
  Operation operation;
  Call call;
  std::function<void()> release;  // counts sent bytes and releases the memory; called once, when the task is done

  // the lane's mutex guards these fields
  bool has_begun = false;
  bool is_running = false;
  bool is_done = false;
  Status status;
  int64_t posted_ns = 0;
  int64_t done_ns = 0;
};

class Lane {
 public:
  explicit Lane(Communicator* communicator) : communicator_(communicator) {}
  // Fails the tasks that have not been executed. The caller must already have told running operations to stop
  // (see Call::closing).
  ~Lane();

  void post(const std::shared_ptr<Task>& task);
  // Blocks until the task is done. This thread executes the task and earlier tasks, unless another thread has
  // started them.
  Status wait(const std::shared_ptr<Task>& task);
  // Returns true if `wait` would return immediately.
  bool is_done(const Task& task);

 private:
  void run_front(std::unique_lock<std::mutex>* lock, bool may_spin);
  void finish(const std::shared_ptr<Task>& task, Status status);
  void work();

  Communicator* const communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;  // notified if a task is done, or if the lane's thread has work or must end
  std::deque<std::shared_ptr<Task>> tasks_;
  bool is_wanted_ = false;  // the thread has work
  bool is_ending_ = false;
  std::thread thread_;  // started when a task first needs it
};

}  // namespace mtl::comm
