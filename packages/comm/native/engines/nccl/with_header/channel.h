// One communicator of NCCL with a stream of its own, and the operations that go through it. A group has one
// channel for its collectives and one per pair of members and direction for messages, so that a receive that
// was posted early never holds up anything else.
//
// An operation goes through these stages, each in the order in which operations were started:
//   waiting   started by the program; the compute stream's position is noted in an event
//   issued    given to NCCL, which is still connecting (only the first operations of a channel take time here)
//   launched  in the stream, with an event behind it
//   done      the event has passed
#pragma once

#include <deque>

#include "engines/nccl/with_header/libraries.h"

namespace mtl::comm::nccl {

struct Record {
  enum class Stage { kWaiting, kIssued, kLaunched, kDone };

  Operation operation;  // copies: the group forgets an operation when `execute` has returned, the device does not
  Call call;
  uint64_t place = 0;  // in the launch order; collectives only
  Stage stage = Stage::kWaiting;
  bool is_executed = false;   // the group has forgotten it
  bool is_joined = false;     // the program has waited for it with success, and counts on its result
  bool is_published = false;  // its description lies in the store for members that time out
  CUevent ready = nullptr;    // what the compute stream had been given when the program started the operation
  CUevent done = nullptr;
  Status failure;
};

struct Channel {
  enum class State { kNew, kConnecting, kReady, kGone };

  std::string name;          // "collectives", or "2>0" for messages from member 2 to member 0
  std::vector<int> members;  // positions in the group, in the order of NCCL's ranks
  int rank = 0;              // this member among them
  State state = State::kNew;
  ncclComm_t communicator = nullptr;
  CUstream stream = nullptr;
  int64_t next_look_ns = 0;      // into the store, for the unique id
  int64_t look_interval_ns = 0;
  int64_t broken_since_ns = 0;   // NCCL has reported an error
  std::deque<std::shared_ptr<Record>> waiting;   // or issued: the first one may be
  std::deque<std::shared_ptr<Record>> launched;

  bool is_collective() const { return name == "collectives"; }
  bool is_idle() const { return waiting.empty() && launched.empty(); }
};

// Gives the operation to NCCL on the channel's stream: one call, or one group of calls. The result is
// ncclInProgress while NCCL is still connecting.
ncclResult_t issue(const NcclLibraries& libraries, const Channel& channel, const Operation& operation,
                   CUdeviceptr barrier_word);

// What this member gives to others: messages and all-to-all exactly, the rest as NCCL's rings do it.
uint64_t bytes_on_wire(const Operation& operation, int num_members, int rank);

}  // namespace mtl::comm::nccl
