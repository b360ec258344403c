// One NCCL communicator with its own stream, and its operations. A group has one channel for its collectives.
// For messages, it has one channel for each pair of members and direction, so that a receive that was posted
// early does not block other operations.
//
// An operation passes through these stages, each in the order in which operations were started:
//   waiting   started by the program; the compute stream's position has been recorded in an event
//   issued    passed to NCCL, which is still connecting (only the first operations of a channel stay here)
//   launched  in the stream, followed by an event
//   done      the event has completed
#pragma once

#include <deque>

#include "engines/nccl/with_header/libraries.h"

namespace mtl::comm::nccl {

struct Record {
  enum class Stage { kWaiting, kIssued, kLaunched, kDone };

  Operation operation;  // copies, because the group drops an operation after `execute`, but the device completes it later
  Call call;
  uint64_t place = 0;  // the position in the launch order; collectives only
  Stage stage = Stage::kWaiting;
  bool is_executed = false;   // the group has dropped the operation
  bool is_joined = false;     // the program has waited for it successfully, and relies on its result
  bool keeps_memory = false;  // the operation is on the device, and the compute stream has not waited for it
  bool is_published = false;  // its description is in the store, for members that reach their timeout
  CUevent ready = nullptr;    // the compute stream's position when the program started the operation
  CUevent done = nullptr;
  Status failure;
};

struct Channel {
  enum class State { kNew, kConnecting, kReady, kGone };

  std::string name;          // "collectives", or for example "2>0" for messages from member 2 to member 0
  std::vector<int> members;  // positions in the group, in the order of NCCL's ranks
  int rank = 0;              // the position of this member in `members`
  State state = State::kNew;
  ncclComm_t communicator = nullptr;
  CUstream stream = nullptr;
  int64_t next_look_ns = 0;      // when to look for the unique id in the store again
  int64_t look_interval_ns = 0;
  int64_t broken_since_ns = 0;   // when NCCL reported an error; 0: it has not
  std::deque<std::shared_ptr<Record>> waiting;   // operations in the stage `waiting`; the first one may be in the stage `issued`
  std::deque<std::shared_ptr<Record>> launched;

  bool is_collective() const { return name == "collectives"; }
  bool is_idle() const { return waiting.empty() && launched.empty(); }
};

// Passes the operation to NCCL on the channel's stream, as one call or one group of calls. Returns
// ncclInProgress while NCCL is still connecting.
ncclResult_t issue(const NcclLibraries& libraries, const Channel& channel, const Operation& operation,
                   CUdeviceptr barrier_word);

// Returns the number of bytes that this member sends. The result is exact for messages and all-to-all;
// otherwise it is the amount that NCCL's ring algorithms send.
uint64_t bytes_on_wire(const Operation& operation, int num_members, int rank);

}  // namespace mtl::comm::nccl
