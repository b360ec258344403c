// A group's member on a GPU. It launches operations on communication streams and makes the compute stream
// wait for them.
//
// The program's thread launches operations and never waits for the device (except in a barrier). Only this
// thread adds waits to the compute stream, because it may be recording a graph of that stream while another
// thread runs. The communicator's own thread connects channels, launches deferred operations, detects
// completion, and polls NCCL's errors, the job's abort state and timeouts. After a failure it aborts NCCL.
// Kernels that wait for a peer then end, so the compute stream continues and the program learns the reason.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "engines/nccl/with_header/channel.h"

namespace mtl::comm::nccl {

class NcclCommunicator : public Communicator, private ProcessGroups::Member {
 public:
  NcclCommunicator(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                   const NcclOptions& options, JobState* job);
  // Completes the operations for which the program has waited, aborts all other operations in progress, and
  // closes.
  ~NcclCommunicator() override;
  Status open();

  const char* engine() const override { return "nccl"; }
  bool moves(Memory memory) const override { return memory == Memory::kDevice; }
  bool begins_at_once() const override { return true; }
  Begun begin(Operation* operation, Call* call) override;
  // Waits until the operation has been launched, then makes the compute stream wait for its result. For a
  // barrier, the host waits instead.
  Status execute(Operation* operation, Call* call) override;
  bool is_ready(const Operation& operation) override;
  void leave() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using RecordPointer = std::shared_ptr<Record>;

  // functions in nccl_communicator.cc, which run on the program's thread
  Channel* channel_of(const Operation& operation);
  Status add_channel(std::string name, std::vector<int> members, Channel** channel);
  Status start(const RecordPointer& record);
  Status wait_until_launched(const RecordPointer& record, Lock* lock);
  Status wait_on_host(const RecordPointer& record, Lock* lock);
  Status new_event(CUevent* event);
  void give_back_events(Record* record);
  void forget(const RecordPointer& record);
  void keep_memory(Record* record, bool must_keep);
  void close_channels();

  // functions in service.cc, which run on the communicator's thread
  void serve();
  bool tend(Channel* channel, Lock* lock);
  void connect(Channel* channel, Lock* lock);
  void launch_waiting(Channel* channel);
  void await_launch(Channel* channel, const Record& record);
  void take_done(Channel* channel);
  void poll_error(Channel* channel);
  void watch_time(Channel* channel, const RecordPointer& record, Lock* lock);
  void time_out(Channel* channel, const RecordPointer& record, Lock* lock);
  void abort_own(Lock* lock);
  void abort_job(Lock* lock);
  bool give_up(std::vector<ncclComm_t>* communicators) override;
  void aborted() override;
  void fail(Channel* channel, const char* code, int rank, const std::string& what);
  void fail(Record* record, Status failure);
  std::string text_of(ncclResult_t result, const Channel& channel) const;
  std::string key(const std::string& name) const { return options_.key + "/" + name; }

  const std::shared_ptr<const NcclLibraries> libraries_;
  const NcclLibraries& nccl_;
  const GroupIdentity group_;
  const NcclOptions options_;
  JobState* const job_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUdeviceptr barrier_word_ = 0;
  int priority_ = 0;  // of communication streams

  std::mutex mutex_;  // guards the members below, and every NCCL call on a ready channel
  std::condition_variable changed_;  // notified if a stage was reached, a failure occurred, or the thread has work
  std::map<std::string, std::unique_ptr<Channel>> channels_;
  std::unordered_map<uint64_t, RecordPointer> records_;  // by Operation::progress; removed when `execute` returns
  std::vector<CUevent> events_;                          // free events, for reuse
  uint64_t next_record_ = 1;
  bool is_idle_ = false;    // the thread sleeps until notified
  bool must_stop_ = false;  // NCCL still uses memory of a cancelled operation
  bool is_aborting_ = false;  // the communicators have been handed over to be aborted
  bool is_aborted_ = false;   // NCCL has been aborted
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace mtl::comm::nccl
