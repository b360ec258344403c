// The engine of GPUs as the rest of @mtl/comm sees it. Compiled in every build; without NCCL's header it only
// says so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engines/nccl/launch_order.h"
#include "group/communicator.h"

namespace mtl::comm::nccl {

// The job's store. Called from several threads, never on the way of an operation that goes well after its
// group and its pairs are connected.
struct StoreAccess {
  std::function<Status(const std::string& key, const std::string& value)> set;
  // `*is_there` says whether the key has been set; never waits for it.
  std::function<Status(const std::string& key, std::string* value, bool* is_there)> find;
};

struct NcclOptions {
  std::string key;                 // of this group in the store: the same on all members, never used twice in a job
  int device = 0;                  // CUDA ordinal, as this process sees it
  void* compute_stream = nullptr;  // cudaStream_t or CUstream that produces inputs and uses results; null: the default one
  StoreAccess store;
  std::shared_ptr<LaunchOrder> order;  // one per process and job
  // NCCL reports that a peer is gone without its name. The watchdog of the host and the heartbeat of other
  // hosts know the name; they get this long to say it first.
  int64_t naming_ns = 1000 * kMillisecond;
};

// libnccl and libcuda, found and checked. Open until the process ends.
struct NcclLibraries;

// MTL_NCCL_NOT_BUILT without NCCL's header in the build, MTL_NCCL_NOT_FOUND with every path that was tried,
// MTL_NCCL_VERSION for a library that is too old. Keep the result: every call searches again.
Status open_nccl_libraries(std::shared_ptr<const NcclLibraries>* libraries);

// For `mtl doctor`.
struct NcclInformation {
  std::string version;  // of the library: "2.30.7"
  std::string path, driver_path;
  std::string built_against;
};
NcclInformation information_of(const NcclLibraries& libraries);
// "NCCL 2.30.7 at PATH (compiled against 2.30.7), driver at PATH".
std::string describe(const NcclLibraries& libraries);

// Whether the engine was compiled, and against what: "compiled against NCCL 2.30.7" or why not.
std::string nccl_build_text();

// A member of `group`. Returns before the others have come: the group connects on a thread of its own, and
// what goes wrong there is an error of the first operation. `job` outlives the communicator. MTL_CUDA for a
// device that is not there.
Status connect_nccl(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                    const NcclOptions& options, JobState* job, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::nccl
