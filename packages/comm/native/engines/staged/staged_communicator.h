// The engine of GPUs whose ranks NCCL does not serve, such as several that share one GPU: tensors go through
// pinned memory of the host and over an engine of the host (`local` or `gloo`), whose sums they get. Host
// tensors go straight to that engine.
//
// An operation on device memory:
//   begin    (the program's thread, never blocks) notes in an event what the compute stream has been given; the
//            communication stream waits for it and copies the input to pinned memory
//   execute  (the queue's own thread, or the one that waits) waits on the host for that copy, runs the operation on the
//            host's engine, enqueues the copy of the result on the copy stream, and makes the compute stream
//            wait for it; the device holds it up where the program records a graph of that stream meanwhile
//            (mtl/device_api.h)
// The copies to the device have a stream of their own: behind a copy to the host that waits for kernels, a
// result that is there already would come late.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "group/communicator.h"
#include "mtl/device_api.h"

namespace mtl::comm::staged {

class StagedCommunicator : public Communicator {
 public:
  // `device` outlives the communicator.
  StagedCommunicator(std::unique_ptr<Communicator> host, const MtlDeviceApi* device);
  // Waits for copies that are still under way: their memory is given back.
  ~StagedCommunicator() override;

  // "staged+" and the host's engine.
  const char* engine() const override { return name_.c_str(); }
  bool moves(Memory) const override { return true; }
  bool begins_at_once() const override { return true; }
  Begun begin(Operation* operation, Call* call) override;
  Status execute(Operation* operation, Call* call) override;
  void leave() override { host_->leave(); }

 private:
  // What one operation holds of the device until its last copy is done.
  struct Transfer {
    bool goes_out = false;    // the input is copied to the host
    bool comes_back = false;  // the result is copied to the device
    void* input = nullptr;    // pinned
    void* output = nullptr;   // pinned, may be `input`
    void* started = nullptr;  // event: what the compute stream had been given when the program started the operation
    void* copied = nullptr;   // event: the input is on the host, and later: the result is on the device
    std::string problem;      // of `begin`, which cannot fail
  };

  bool prepare(const Operation& operation, Transfer* transfer);
  Status wait_for_input(const Transfer& transfer, Call* call);
  bool bring_back(const Operation& operation, const Transfer& transfer);
  Transfer take(uint64_t number);
  // Gives back what is no longer used: now, or once the last copy that was enqueued is done.
  void retire(const Transfer& transfer);
  // Of what `retire` kept, what is done by now.
  void give_back_retired();
  void give_back(const Transfer& transfer);
  bool new_event(void** event);

  const std::unique_ptr<Communicator> host_;
  const MtlDeviceApi& device_;
  const std::string name_;

  std::mutex mutex_;  // queues of messages and of collectives run on several threads
  std::map<uint64_t, Transfer> transfers_;  // by Operation::progress
  std::vector<Transfer> retired_;           // `copied` has been recorded behind their last copy
  std::vector<void*> events_;               // for use again
  uint64_t next_transfer_ = 1;
};

}  // namespace mtl::comm::staged
