// Tests of the nccl engine with the real libraries, in two processes: on two GPUs if available, else both on
// the same one. NCCL rejects two ranks on one GPU unless each sets its own host (NCCL_HOSTID); they then
// communicate through sockets. NVIDIA does not support this, but it lets a single GPU test launching,
// ordering, aborts and timeouts. Prints one line per check; without a GPU or the libraries, prints one line
// "SKIPPED" with the reason and exits with 77.
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engines/nccl/nccl_engine.h"
#include "group/group.h"

namespace mtl::comm::nccl {
namespace {

constexpr int kSkipped = 77;
int num_failures = 0;

void expect(bool is_met, const char* what, const Status& status = ok_status()) {
  std::printf("%s %s%s%s\n", is_met ? "ok  " : "FAIL", what, status.ok() ? "" : ": ",
              status.ok() ? "" : status.failure().message.c_str());
  std::fflush(stdout);
  num_failures += is_met ? 0 : 1;
}

// Makes a store for two processes: a directory with one file per key, each written once by a rename.
StoreAccess file_store(const std::string& folder) {
  const auto path_of = [folder](std::string key) {
    for (char& letter : key) letter = letter == '/' ? '_' : letter;
    return folder + "/" + key;
  };
  StoreAccess access;
  access.set = [=](const std::string& key, const std::string& value) -> Status {
    const std::string path = path_of(key), partial = path + "." + std::to_string(getpid());
    std::FILE* file = std::fopen(partial.c_str(), "wb");
    if (file == nullptr) return error_status("MTL_STORE", "%s: %s", partial.c_str(), std::strerror(errno));
    std::fwrite(value.data(), 1, value.size(), file);
    std::fclose(file);
    if (std::rename(partial.c_str(), path.c_str()) == 0) return ok_status();
    return error_status("MTL_STORE", "%s: %s", path.c_str(), std::strerror(errno));
  };
  access.find = [=](const std::string& key, std::string* value, bool* is_there) -> Status {
    std::FILE* file = std::fopen(path_of(key).c_str(), "rb");
    *is_there = file != nullptr;
    if (file == nullptr) return ok_status();
    char bytes[4096];
    value->assign(bytes, std::fread(bytes, 1, sizeof(bytes), file));
    std::fclose(file);
    return ok_status();
  };
  return access;
}

// Functions of the driver that the tests need in addition to the engine's.
struct Driver {
  decltype(&cuInit) init;
  decltype(&cuDeviceGetCount) count;
  decltype(&cuDevicePrimaryCtxRetain) retain;
  decltype(&cuCtxPushCurrent) push;
  decltype(&cuMemAlloc) allocate;
  decltype(&cuMemcpyHtoD) to_device;
  decltype(&cuMemcpyDtoH) to_host;
  bool load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto resolve = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(library, name));
      return *function != nullptr;
    };
    return resolve("cuInit", &init) && resolve("cuDeviceGetCount", &count) &&
           resolve("cuDevicePrimaryCtxRetain", &retain) && resolve("cuCtxPushCurrent_v2", &push) &&
           resolve("cuMemAlloc_v2", &allocate) && resolve("cuMemcpyHtoD_v2", &to_device) &&
           resolve("cuMemcpyDtoH_v2", &to_host);
  }
};

// An array of floats on the device.
struct Buffer {
  const Driver& driver;
  CUdeviceptr data = 0;
  size_t bytes;
  Buffer(const Driver& with, const std::vector<float>& values) : driver(with), bytes(values.size() * sizeof(float)) {
    driver.allocate(&data, bytes);
    driver.to_device(data, values.data(), bytes);
  }
  std::vector<float> read() const {  // on the default stream, so after the work for which this stream waits
    std::vector<float> values(bytes / sizeof(float));
    driver.to_host(values.data(), data, bytes);
    return values;
  }
};

OperationRequest request(OperationKind kind, const Buffer* input, const Buffer* output, int peer = -1) {
  OperationRequest made;
  made.kind = kind;
  made.peer = peer;
  if (input != nullptr) made.input = reinterpret_cast<void*>(input->data), made.input_bytes = input->bytes;
  if (output != nullptr) made.output = reinterpret_cast<void*>(output->data), made.output_bytes = output->bytes;
  return made;
}

Status wait(Group::Work work) { return work.wait(); }

struct Self {
  int rank;
  int device;
  StoreAccess store;
  Driver driver;
  std::shared_ptr<const NcclLibraries> libraries;
  std::shared_ptr<ProcessGroups> process = std::make_shared<ProcessGroups>();
  Trace trace{64};

  std::unique_ptr<Group> group(const std::string& name, JobState* job, double timeout_s) {
    GroupIdentity identity{name, {0, 1}, rank, static_cast<int64_t>(timeout_s * 1e9)};
    NcclOptions options;
    options.key = name;
    options.device = device;
    options.store = store;
    options.process = process;
    std::unique_ptr<Communicator> communicator;
    const Status status = connect_nccl(libraries, identity, options, job, &communicator);
    expect(status.ok(), "connect", status);
    if (!status.ok()) std::exit(1);
    return std::unique_ptr<Group>(new Group(1, identity, std::move(communicator), job, &trace));
  }
};

void check_operations(Self* self) {
  JobState job(self->rank);
  const std::unique_ptr<Group> group = self->group("operations", &job, 120);
  const float mine = static_cast<float>(self->rank + 1);
  const int other = 1 - self->rank;
  Status status = wait(group->start(OperationRequest()));
  expect(status.ok(), "barrier", status);
  const size_t large = 1 << 20;
  const Buffer sum(self->driver, std::vector<float>(large, mine)), part(self->driver, {mine}), whole(self->driver, {0, 0});
  const Buffer pair(self->driver, {mine, 10 * mine}), slice(self->driver, {0}), rooted(self->driver, {mine});
  const Buffer exchanged(self->driver, {0, 0}), received(self->driver, {0});
  Group::Work early = group->start(request(OperationKind::kReceive, nullptr, &received, other));
  for (const OperationRequest& each :
       {request(OperationKind::kAllReduce, &sum, &sum), request(OperationKind::kAllGather, &part, &whole),
        request(OperationKind::kReduceScatter, &pair, &slice), request(OperationKind::kBroadcast, &rooted, &rooted, 1),
        request(OperationKind::kAllToAll, &pair, &exchanged), request(OperationKind::kSend, &part, nullptr, other)}) {
    status = wait(group->start(each));
    expect(status.ok(), name_of(each.kind), status);
  }
  status = early.wait();
  expect(status.ok(), "receive", status);
  expect(sum.read() == std::vector<float>(large, 3), "all-reduce: the sum of both");
  expect(whole.read() == std::vector<float>{1, 2}, "all-gather: both, in order");
  expect(slice.read() == std::vector<float>{self->rank == 0 ? 3.f : 30.f}, "reduce-scatter: this rank's part");
  expect(rooted.read() == std::vector<float>{2}, "broadcast: the root's");
  expect(exchanged.read() == (self->rank == 0 ? std::vector<float>{1, 2} : std::vector<float>{10, 20}), "all-to-all");
  expect(received.read() == std::vector<float>{static_cast<float>(other + 1)}, "a receive that was posted first");
}

// Rank 1 never starts the operation: rank 0 gets the error, and its stream continues.
void check_time_out(Self* self) {
  JobState job(self->rank);
  const std::unique_ptr<Group> group = self->group("time-out", &job, 5);
  Status status = wait(group->start(OperationRequest()));
  expect(status.ok(), "barrier before the time-out", status);
  if (self->rank == 0) {
    const Buffer value(self->driver, {1});
    status = wait(group->start(request(OperationKind::kAllReduce, &value, &value)));
    expect(status.ok(), "an all-reduce that only one rank starts is launched", status);
    value.read();  // returns because NCCL is aborted
    status = wait(group->start(OperationRequest()));
    expect(!status.ok() && status.failure().code == "MTL_TIMEOUT" && status.failure().rank == 1,
           "the time-out names rank 1", status);
    expect(self->store.set("time-out is over", "1").ok(), "tell rank 1");
    return;
  }
  std::string value;
  bool is_there = false;
  while (!is_there) {
    usleep(10000);
    if (!self->store.find("time-out is over", &value, &is_there).ok()) return;
  }
}

int run_rank(int rank, int num_devices, const std::string& folder) {
  if (num_devices < 2) setenv("NCCL_HOSTID", rank == 0 ? "mtl-first" : "mtl-second", 1);
  Self self;
  self.rank = rank;
  self.device = num_devices < 2 ? 0 : rank;
  self.store = file_store(folder);
  self.driver.load();
  const Status status = open_nccl_libraries(&self.libraries);
  expect(status.ok(), "libraries", status);
  if (!status.ok()) return 1;
  std::printf("%s\n", describe(*self.libraries).c_str());
  CUcontext context;
  self.driver.retain(&context, self.device);
  self.driver.push(context);
  check_operations(&self);
  check_time_out(&self);
  return num_failures == 0 ? 0 : 1;
}

// Returns the number of GPUs; prints the reason if it is below 1. Counts them in a separate process, because
// CUDA does not survive a fork.
int count_devices() {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    Driver driver;
    int count = 0;
    std::shared_ptr<const NcclLibraries> libraries;
    const Status status = open_nccl_libraries(&libraries);
    if (!status.ok()) {
      std::printf("SKIPPED 1 test of the nccl engine on a GPU: %s\n", status.failure().message.c_str());
    } else if (!driver.load() || driver.count(&count) != CUDA_SUCCESS || count == 0) {
      std::printf("SKIPPED 1 test of the nccl engine on a GPU: the driver knows of no GPU\n");
    }
    std::fflush(stdout);
    _exit(count);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace
}  // namespace mtl::comm::nccl

int main() {
  using namespace mtl::comm::nccl;
  const int num_devices = count_devices();
  if (num_devices == 0) return kSkipped;
  char folder[] = "/tmp/mtl-nccl-device-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  pid_t children[2];
  for (int rank = 0; rank < 2; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) {
      const int result = run_rank(rank, num_devices, folder);
      std::fflush(stdout);
      _exit(result);
    }
  }
  int result = 0;
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) result = 1;
  }
  std::printf("the nccl engine on %d GPU(s): %s\n", num_devices, result == 0 ? "passed" : "FAILED");
  return result;
}
