// The interface between groups and the engines that transfer their data: `local` (shared memory), `gloo` and
// `nccl` each implement it, and `staged` on top of one of the first two.
//
// A group (group/group.h) calls a communicator like this:
// * collectives one after the other, in the order in which they were started, never two at a time;
// * sends to one member one after the other, and receives from one member likewise, but concurrently with
//   collectives and with messages of other pairs and directions, each on its own thread;
// * `begin` on the thread that starts the operation, when all earlier operations of the same queue are
//   complete; then `execute` on that thread or another. `execute` may be called without `begin`;
// * an engine that `begins_at_once` gets `begin` with every operation; after kHandedOver only the thread that
//   waits calls `execute`, after kUnfinished that thread or the queue's own, in the order of the queue.
// Memory in `operation` stays valid until `execute` has returned.
#pragma once

#include "group/call.h"

namespace mtl::comm {

// How much `begin` has done.
enum class Begun {
  kDone,        // everything is done: `execute` will not be called
  kHandedOver,  // no other member waits for this one: `execute` can wait until the result is requested
  kUnfinished,  // `execute` must be called soon, since other members wait
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // "local", "gloo" or "nccl", as in `ProcessGroup.engine` in TypeScript.
  virtual const char* engine() const = 0;

  // Returns whether the engine supports tensors on that device. Every engine supports a barrier, which has no
  // tensor.
  virtual bool moves(Memory memory) const { return memory == Memory::kHost; }

  // Returns whether operations are launched when the program starts them, in one order over all queues, even
  // while earlier operations of the same queue are in progress. True for engines whose device keeps the
  // order: an internal thread must not choose another one.
  virtual bool begins_at_once() const { return false; }

  // Does everything that is possible without waiting for other members, and never blocks. Stores what is done
  // in `operation->progress`. An engine that launches work on a device does so here and returns kHandedOver;
  // its `execute` then makes the compute stream wait.
  virtual Begun begin(Operation* operation, Call* call) {
    static_cast<void>(operation);
    static_cast<void>(call);
    return Begun::kUnfinished;
  }

  // Executes the operation, or the rest that `begin` left, and returns when the result is in place. Compares
  // descriptions before data is transferred (call->mismatch), polls call->check() at least every 50 ms during
  // a wait, and gives up with call->timed_out() at call->deadline_ns(). Every failure is created through
  // `call`, which adds its details and aborts the job. All members get the same bits, regardless of timing.
  virtual Status execute(Operation* operation, Call* call) = 0;

  // Returns whether `execute` of an operation that has begun would return without waiting.
  virtual bool is_ready(const Operation& operation) {
    static_cast<void>(operation);
    return false;
  }

  // Tells the members that wait for this one that it will not start any more operations. Called once, before
  // the destructor, possibly while a stopped `execute` is still returning.
  virtual void leave() = 0;
};

}  // namespace mtl::comm
