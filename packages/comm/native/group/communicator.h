// THE seam between groups and what moves their bytes: `local` (shared memory), `gloo` and `nccl` each
// implement it, and `staged` over one of the first two.
//
// A group (group/group.h) calls a communicator like this:
// * collectives one after the other, in the order in which they were started, never two at a time;
// * sends to one member one after the other, and receives from one member likewise, but at the same time as
//   collectives and as messages of other pairs and directions, each on its own thread;
// * `begin` on the thread that starts the operation, when nothing that was started before it on the same
//   queue is unfinished; then `execute` on that thread or another. `execute` may come without `begin`;
// * an engine that `begins_at_once` gets `begin` with every operation; after kHandedOver only the thread that
//   waits calls `execute`, after kUnfinished that thread or the queue's own, in the order of the queue.
// Memory in `operation` stays valid until `execute` has returned.
#pragma once

#include "group/call.h"

namespace mtl::comm {

// How far `begin` came.
enum class Begun {
  kDone,        // all of it is done: there will be no `execute`
  kHandedOver,  // no other member waits for this one: `execute` can wait until the result is asked for
  kUnfinished,  // someone must call `execute` soon, for the others' sake
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // "local", "gloo" or "nccl", as `ProcessGroup.engine` says it in TypeScript.
  virtual const char* engine() const = 0;

  // Whether it takes tensors that live there. A barrier, which has none, comes to every engine.
  virtual bool moves(Memory memory) const { return memory == Memory::kHost; }

  // Whether operations are launched where the program starts them, in one order over all queues, even while
  // earlier ones of their queue are under way: the device keeps the order, and a thread of ours must not
  // choose another one.
  virtual bool begins_at_once() const { return false; }

  // Does what can be done without waiting for anybody, and never blocks. Notes in `operation->progress` what
  // is done. An engine that launches work on a device does it here and returns kHandedOver; its `execute`
  // then makes the compute stream wait.
  virtual Begun begin(Operation* operation, Call* call) {
    static_cast<void>(operation);
    static_cast<void>(call);
    return Begun::kUnfinished;
  }

  // Does the operation, or what `begin` left of it, and returns when the result is in place. Compares
  // descriptions before bytes move (call->mismatch), polls call->check() at least every 50 ms while it waits,
  // and gives up with call->timed_out() at call->deadline_ns(). Every failure goes through `call`, so that it
  // names what it must and aborts the job. All members get the same bits, whatever the timing.
  virtual Status execute(Operation* operation, Call* call) = 0;

  // Whether `execute` of an operation that has begun would return without waiting.
  virtual bool is_ready(const Operation& operation) {
    static_cast<void>(operation);
    return false;
  }

  // This member will start nothing more: members that wait for it are told. Called once, before the
  // destructor, possibly while an `execute` that was told to stop is still returning.
  virtual void leave() = 0;
};

}  // namespace mtl::comm
