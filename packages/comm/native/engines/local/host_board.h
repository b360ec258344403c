// The state that the ranks of one host share outside their groups: which ranks have joined, which ranks have
// left cleanly, where the memory segments of groups are, and why the job was aborted. The first rank of the
// host creates the board; the other ranks get its address from a store.
#pragma once

#include <memory>
#include <vector>

#include "core/job_state.h"
#include "engines/local/segment.h"

namespace mtl::comm::local {

class HostBoard {
 public:
  // `ranks` has the global ranks on this host in ascending order, including `job->rank()`.
  static Status create(JobState* job, std::vector<int> ranks, std::unique_ptr<HostBoard>* board);
  static Status open(JobState* job, std::vector<int> ranks, const SegmentAddress& address,
                     std::unique_ptr<HostBoard>* board);
  // Creates the board of another rank in the process of `first`, which must live longer. Both boards use one
  // mapping, so that a race detector sees all accesses to the same addresses.
  static std::unique_ptr<HostBoard> borrow(JobState* job, std::vector<int> ranks, const HostBoard& first);
  ~HostBoard();

  const SegmentAddress& address() const { return segment_.address(); }
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  int own_index() const { return own_; }

  // Announces this process and waits for the other ranks. The error MTL_TIMEOUT names the missing ranks.
  Status join(int64_t timeout_ns);
  // Returns the process id of a rank that has joined. `index` is an index into ranks().
  int pid_of(int index) const;

  // Announces a segment of this process under a key, for ever: a place that was given to another segment
  // could change while a rank copies its address. The readers of the segment can compute the key.
  Status publish(uint64_t key, const SegmentAddress& address);
  // Waits until the rank has announced a segment under `key`. `what` is the segment's name in errors. Returns
  // MTL_RANK_LEFT if the rank has left the job without announcing it.
  Status find(int index, uint64_t key, const char* what, int64_t timeout_ns, SegmentAddress* address);
  // Returns the reason why a segment announced by the rank at `index` cannot be opened: MTL_RANK_LEFT if the
  // rank has left the job, the job's failure if the job has failed, otherwise `status`, the error from
  // opening the segment.
  Status reason_for(const Status& status, int index, const char* what);

  // Tells the other ranks of this host why the job ends. If several ranks call this function, the first
  // reason is kept.
  void write_abort(const Failure& reason);
  // Returns true and sets `reason` if a rank has aborted.
  bool read_abort(Failure* reason) const;

  // Leaves the job: from now on, the end of this process does not count as a failure.
  void leave();
  bool has_left(int index) const;

 private:
  struct Layout;
  HostBoard(JobState* job, std::vector<int> ranks, Segment segment);
  static Status prepare(JobState* job, const std::vector<int>& ranks);
  // Fails the job with MTL_RANK_LEFT.
  Status left(int index, const char* what);
  template <typename Reached>
  Status wait(int64_t timeout_ns, const Reached& reached, bool* is_reached);

  JobState* const job_;
  const std::vector<int> ranks_;
  int own_ = 0;
  Segment segment_;
  Layout* layout_;
};

}  // namespace mtl::comm::local
