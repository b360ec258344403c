// The engine for GPUs: its interface to the rest of @mtl/comm. Compiled in every build; without NCCL's header
// it only reports that it is missing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engines/nccl/process_groups.h"
#include "group/communicator.h"

namespace mtl::comm::nccl {

// The job's store. Called from several threads; never by a successful operation once its group and its pairs
// are connected.
struct StoreAccess {
  std::function<Status(const std::string& key, const std::string& value)> set;
  // `*is_there`: whether the key has been set; does not wait for it.
  std::function<Status(const std::string& key, std::string* value, bool* is_there)> find;
};

struct NcclOptions {
  std::string key;                 // of this group in the store: the same on all members, unique within a job
  int device = 0;                  // CUDA ordinal in this process
  void* compute_stream = nullptr;  // cudaStream_t or CUstream of inputs and results; null: the default
  StoreAccess store;
  std::function<void(int32_t change)> keep_memory;  // MtlDeviceApi::keep_memory; may be empty
  std::shared_ptr<ProcessGroups> process;  // one per process and job
  // NCCL reports that a peer has ended but not which one. The host's watchdog and the heartbeats of other
  // hosts know; they get this long to report it first.
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

// Whether the engine was compiled, and with which version: "compiled against NCCL 2.30.7" or why not.
std::string nccl_build_text();

// A member of `group`. Returns before the other members have connected: the group connects on its own thread,
// and a failure there is reported by the first operation. `job` outlives the communicator. MTL_CUDA if the
// device does not exist.
Status connect_nccl(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                    const NcclOptions& options, JobState* job, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::nccl
