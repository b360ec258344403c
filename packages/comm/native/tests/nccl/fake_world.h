// Runs ranks as threads with the fake libraries. A test creates a world and runs a function on each rank; at
// the end all resources must be released.
#pragma once

#ifdef MTL_NCCL_FAKES

#include <atomic>

#include "tests/gate.h"
#include "tests/nccl/fake/fake_control.h"
#include "tests/nccl/nccl_tests.h"

namespace mtl::comm::nccl::tests {

// The functions by which tests control the fakes.
struct Fakes {
  decltype(&mtl_fake_enqueue) enqueue;
  decltype(&mtl_fake_claim) claim;
  decltype(&mtl_fake_trespasses) trespasses;
  decltype(&mtl_fake_live_objects) live_objects;
  decltype(&mtl_fake_set) set;
  decltype(&mtl_fake_count) count;
  decltype(&cuStreamCreateWithPriority) create_stream;
  decltype(&cuStreamDestroy) destroy_stream;
  decltype(&cuCtxPushCurrent) push;
  decltype(&cuCtxPopCurrent) pop;
  std::shared_ptr<const NcclLibraries> libraries;
};
const Fakes& fakes();

// Changes a setting until the end of the scope.
class Setting {
 public:
  Setting(MtlFakeSetting setting, int value, int after = 0) : setting_(setting), after_(after) {
    fakes().set(setting, value);
  }
  ~Setting() { fakes().set(setting_, after_); }

 private:
  const MtlFakeSetting setting_;
  const int after_;
};

// A process in a job: its abort state, its compute stream and its groups.
class Rank {
 public:
  Rank(int rank, MemoryStore* store);
  ~Rank();

  int rank() const { return rank_; }
  JobState& job() { return job_; }
  // The number of operations on the device that the compute stream does not wait for.
  int num_keeping_memory() const { return num_keeping_memory_; }
  std::unique_ptr<Group> group(const std::string& name, std::vector<int> ranks, double timeout_s = 60,
                               double naming_s = 60);
  // Enqueues work on the compute stream.
  void compute(std::function<void()> work);
  // Waits until the compute stream is empty.
  void synchronize();

 private:
  const int rank_;
  MemoryStore* const store_;
  JobState job_;
  Trace trace_{64};
  CUstream compute_ = nullptr;
  std::atomic<int> num_keeping_memory_{0};
  std::shared_ptr<ProcessGroups> process_ = std::make_shared<ProcessGroups>();
};

// Runs `body` on one thread per rank. Checks that all device resources are released, and that no other thread
// has ordered a rank's compute stream, since the rank may record a graph of that stream at any time.
void run_ranks(int num_ranks, const std::function<void(Rank*)>& body, MemoryStore* store = nullptr);

using comm::tests::Gate;

template <typename Element>
OperationRequest request(OperationKind kind, std::vector<Element>* input, std::vector<Element>* output, int peer = -1,
                         Reduction reduction = Reduction::kSum) {
  OperationRequest made;
  made.kind = kind;
  made.dtype = std::is_same<Element, float>::value ? DType::kFloat32 : DType::kInt32;
  made.reduction = reduction;
  made.peer = peer;
  if (input != nullptr) {
    made.input = input->data();
    made.input_bytes = input->size() * sizeof(Element);
  }
  if (output != nullptr) {
    made.output = output->data();
    made.output_bytes = output->size() * sizeof(Element);
  }
  return made;
}

inline OperationRequest barrier() { return OperationRequest(); }

}  // namespace mtl::comm::nccl::tests

#endif
