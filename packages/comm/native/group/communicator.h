// The interface between groups and the engines that transfer their data. `local` (shared memory), `gloo` and
// `nccl` implement it directly; `staged` wraps `local` or `gloo`.
//
// A group (group/group.h) calls a communicator as follows:
// * Collectives run one after the other, in the order in which they were started.
// * Sends to the same member run one after the other. Receives from the same member also run one after the
//   other. Each such sequence has its own thread, and runs concurrently with collectives and with the other
//   sequences.
// * `begin` is called on the thread that starts the operation, if all earlier operations of the same queue
//   are complete; then `execute`, on this thread or another. `execute` may be called without `begin`.
// * If the engine `begins_at_once`, `begin` is called for every operation. If `begin` returned kHandedOver,
//   only the thread that waits calls `execute`. If it returned kUnfinished, this thread or the queue's own
//   thread calls it, in the order of the queue.
//
// Memory in `operation` stays valid until `execute` has returned.
#pragma once

#include "group/call.h"

namespace mtl::comm {

// How much of an operation `begin` has done.
enum class Begun {
  kDone,        // everything is done: `execute` will not be called
  kHandedOver,  // no other member waits for this one, so `execute` may wait until the result is requested
  kUnfinished,  // other members wait, so `execute` must be called soon
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // "local", "gloo" or "nccl", as in `ProcessGroup.engine` in TypeScript.
  virtual const char* engine() const = 0;

  // Returns true if the engine supports tensors in `memory`. Every engine supports a barrier, which has no
  // tensor.
  virtual bool moves(Memory memory) const { return memory == Memory::kHost; }

  // Returns true if operations are launched when the program starts them, in one order over all queues, even
  // while earlier operations of the same queue are in progress. True for engines whose device executes
  // operations in launch order, which an internal thread must not change.
  virtual bool begins_at_once() const { return false; }

  // Does everything that is possible without waiting for other members; never blocks. Stores in
  // `operation->progress` how much is done. An engine that launches work on a device does so here and returns
  // kHandedOver; its `execute` then makes the compute stream wait for the work.
  virtual Begun begin(Operation* operation, Call* call) {
    static_cast<void>(operation);
    static_cast<void>(call);
    return Begun::kUnfinished;
  }

  // Executes the operation, or what `begin` has not yet done, and returns when the result is complete. The
  // engine must:
  // * compare descriptions before data is transferred (call->mismatch)
  // * poll call->check() at least every 50 ms during a wait
  // * give up with call->timed_out() at call->deadline_ns()
  // * create every failure through `call`, which adds details and aborts the job
  //
  // All members get the same bits, whatever the timing.
  virtual Status execute(Operation* operation, Call* call) = 0;

  // Returns true if `execute` would return without waiting, for an operation that has begun.
  virtual bool is_ready(const Operation& operation) {
    static_cast<void>(operation);
    return false;
  }

  // Tells the members that wait for this member that it will not start any more operations. Called once,
  // before the destructor; an `execute` that has been told to stop may still be returning.
  virtual void leave() = 0;
};

}  // namespace mtl::comm
