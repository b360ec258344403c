// ncclInformation, createNcclGroup, gpuOfProcess
#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "bindings/jobs.h"
#include "bindings/stores.h"
#include "bindings/tensors.h"
#include "engines/nccl/nccl_engine.h"

namespace mtl::comm::bindings {
namespace {

std::mutex mutex;
std::shared_ptr<const nccl::NcclLibraries> libraries;  // null until they have been found

Status find_libraries(std::shared_ptr<const nccl::NcclLibraries>* found) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (libraries == nullptr) MTL_RETURN_IF_ERROR(nccl::open_nccl_libraries(&libraries));
  *found = libraries;
  return ok_status();
}

Napi::Value information(const Napi::CallbackInfo& info) {
  std::shared_ptr<const nccl::NcclLibraries> found;
  const Status status = find_libraries(&found);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  const nccl::NcclInformation information = information_of(*found);
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("version", information.version);
  result.Set("path", information.path);
  result.Set("driverPath", information.driver_path);
  result.Set("builtAgainst", information.built_against);
  return result;
}

// Returns the GPU that this process has opened: its index in this process, and its identifier, which is the
// same in all processes.
Napi::Value gpu_of_process(const Napi::CallbackInfo& info) {
  const MtlDeviceApi* device;
  const Status status = find_device(&device);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  std::string uuid;
  for (const uint8_t byte : device->device_uuid) uuid += format_text("%02x", byte);
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("index", device->device_index);
  result.Set("uuid", uuid);
  return result;
}

nccl::StoreAccess access_to(const std::shared_ptr<store::StoreClient>& client) {
  nccl::StoreAccess access;
  access.set = [client](const std::string& key, const std::string& value) { return client->set(key, value); };
  access.find = [client](const std::string& key, std::string* value, bool* is_there) {
    return client->find(key, is_there, value);
  };
  return access;
}

// Sets a distinct NCCL_HOSTID, because NCCL rejects two ranks on one GPU of one host. Must be called by ranks
// that share a GPU; has no effect if the user has set NCCL_HOSTID or NCCL_MULTI_RANK_GPU_ENABLE. NCCL reads
// the variable once, when the process makes its first unique id or communicator, so this function must run
// earlier.
void claim_own_host(int rank) {
  static std::once_flag claimed;  // only once: the first group starts NCCL's threads, which read the environment
  std::call_once(claimed, [&] {
    if (std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") != nullptr) return;
    setenv("NCCL_HOSTID", ("mtl-rank-" + std::to_string(rank)).c_str(), 0);
  });
}

// (job, {storeClient, name, ranks, key, timeoutMs, sharesGpu}) => {group, engine}. Returns before the other
// ranks are connected.
Napi::Value create_nccl_group(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  if (job == nullptr) return {};
  GroupIdentity identity;
  nccl::NcclOptions options;
  double timeout_ms;
  int64_t client_handle;
  bool shares_gpu;
  Fields fields(info, 1);
  if (!fields.integer("storeClient", &client_handle) || !fields.text("name", &identity.name) ||
      !fields.integers("ranks", &identity.ranks) || !fields.text("key", &options.key) ||
      !fields.number("timeoutMs", &timeout_ms) || !fields.flag("sharesGpu", &shares_gpu)) {
    return {};
  }
  const std::shared_ptr<store::StoreClient> client = find_store_client(info.Env(), client_handle);
  if (client == nullptr) return {};
  if (shares_gpu) claim_own_host(job->state.rank());
  identity.timeout_ns = static_cast<int64_t>(timeout_ms * kMillisecond);
  const auto own = std::find(identity.ranks.begin(), identity.ranks.end(), job->state.rank());
  identity.rank = static_cast<int>(own - identity.ranks.begin());
  std::shared_ptr<const nccl::NcclLibraries> found;
  const MtlDeviceApi* device;
  Status status = find_libraries(&found);
  if (status.ok()) status = find_device(&device);
  std::unique_ptr<Communicator> communicator;
  if (status.ok()) {
    if (job->nccl_groups == nullptr) job->nccl_groups = std::make_shared<nccl::ProcessGroups>();
    options.device = device->device_index;
    options.compute_stream = device->stream(MTL_STREAM_COMPUTE);
    options.store = access_to(client);
    options.keep_memory = device->keep_memory;
    options.process = job->nccl_groups;
    status = connect_nccl(std::move(found), identity, options, &job->state, &communicator);
  }
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return opened_group(info, job, std::move(identity), std::move(communicator));
}

void register_nccl_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("ncclInformation", Napi::Function::New(env, information));
  exports.Set("gpuOfProcess", Napi::Function::New(env, gpu_of_process));
  exports.Set("createNcclGroup", Napi::Function::New(env, create_nccl_group));
}

const Registration nccl_registration(register_nccl_functions);

}  // namespace
}  // namespace mtl::comm::bindings
