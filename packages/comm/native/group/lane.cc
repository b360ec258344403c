#include "group/lane.h"

namespace mtl::comm {

Lane::~Lane() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!tasks_.empty()) run_front(&lock, false);  // returns at once, because the group is closing
}

void Lane::post(const std::shared_ptr<Task>& task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Begun begun = Begun::kUnfinished;
  if (tasks_.empty() || communicator_->begins_at_once()) {
    task->call.started_ns = task->posted_ns;
    // a member that has failed must not count among the members that arrive, because the other members would
    // then report the wrong rank
    Status failure = task->call.check();
    if (!failure.ok()) return finish(task, std::move(failure));
    task->has_begun = true;
    begun = communicator_->begin(&task->operation, &task->call);
    if (begun == Begun::kDone) return finish(task, ok_status());
  }
  tasks_.push_back(task);
  if (begun == Begun::kHandedOver) return;
  is_wanted_ = true;
  if (!thread_.joinable()) {
    thread_ = std::thread(&Lane::work, this);
  } else {
    changed_.notify_all();
  }
}

Status Lane::wait(const std::shared_ptr<Task>& task) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!task->is_done) {
    if (tasks_.front()->is_running) {
      changed_.wait(lock);
    } else {
      run_front(&lock, true);
    }
  }
  return task->status;
}

bool Lane::is_done(const Task& task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (task.is_done) return true;
  const bool is_next = tasks_.front().get() == &task || communicator_->begins_at_once();
  return is_next && task.has_begun && !task.is_running &&
         (communicator_->is_ready(task.operation) || !task.call.check().ok());
}

// Executes the first task, without the lock.
void Lane::run_front(std::unique_lock<std::mutex>* lock, bool may_spin) {
  const std::shared_ptr<Task> task = tasks_.front();
  task->is_running = true;
  task->call.may_spin = may_spin;
  task->call.started_ns = now_ns();
  lock->unlock();
  Status status = task->call.check();
  if (status.ok() || task->has_begun) status = communicator_->execute(&task->operation, &task->call);
  lock->lock();
  tasks_.pop_front();
  finish(task, std::move(status));
  changed_.notify_all();
}

void Lane::finish(const std::shared_ptr<Task>& task, Status status) {
  task->status = std::move(status);
  task->done_ns = now_ns();
  task->is_running = false;
  task->is_done = true;
  if (task->release) task->release();
  task->release = nullptr;
}

void Lane::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_ending_) {
    if (!tasks_.empty() && !tasks_.front()->is_running && is_wanted_) {
      run_front(&lock, false);
    } else {
      if (tasks_.empty()) is_wanted_ = false;
      changed_.wait(lock);
    }
  }
}

}  // namespace mtl::comm
