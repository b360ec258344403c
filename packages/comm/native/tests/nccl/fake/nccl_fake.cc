// A fake of libnccl.so.2 for tests without a GPU: members are threads of one process, kernels are work for
// the fake's streams. As strict as NCCL's documentation about calls on a communicator that is still in
// progress. Like NCCL, it does not report members that call different operations: they wait for each other
// until they are aborted.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_control.h"

namespace {

std::atomic<int> settings[kNumFakeSettings] = {{23007}, {0}, {0}, {0}, {0}, {0}};
std::atomic<int> counts[kNumFakeCounts];

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

struct Call {
  Kind kind;
  const void* input;
  void* output;
  size_t count;
  ncclDataType_t type;
  int parameter;  // reduction, root or peer

  bool fits(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && parameter == other.parameter;
  }
};

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

struct Slot {
  std::vector<std::vector<char>> inputs;
  std::vector<Call> calls;
  int num_arrived = 0, num_left = 0;
  bool is_consistent = true;
};

// All members of a communicator.
struct Clique {
  explicit Clique(int num_members) : size(num_members) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int num_joined = 0;
  std::map<uint64_t, Slot> slots;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> mail;
};

struct Member {
  std::shared_ptr<Clique> clique;
  int rank;
  bool is_aborted = false;  // under the clique's mutex

  bool may_go_on() const { return is_aborted || settings[kFakeKernelHangs] == 0; }
};

// Kernels that end only when their communicator is aborted.
std::mutex hanging_mutex;
std::condition_variable hanging_changed;
int num_hanging = 0;

// Counts a kernel for the duration of its wait, if kernels hang.
class Hanging {
 public:
  Hanging() : is_counted_(settings[kFakeKernelHangs] != 0) { add(1); }
  ~Hanging() { add(-1); }
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;

 private:
  void add(int number) {
    if (!is_counted_) return;
    const std::lock_guard<std::mutex> lock(hanging_mutex);
    num_hanging += number;
    hanging_changed.notify_all();
  }
  const bool is_counted_;
};

// Waits for the device, as releasing a communicator does. The limit applies only in a test that fails.
void wait_for_device() {
  std::unique_lock<std::mutex> lock(hanging_mutex);
  if (!hanging_changed.wait_for(lock, std::chrono::seconds(20), [] { return num_hanging == 0; })) ++counts[kFakeStuck];
}

std::mutex cliques_mutex;
std::map<std::string, std::weak_ptr<Clique>> cliques;

template <typename Element>
void reduce(const Slot& slot, size_t first, size_t count, int operation, void* output) {
  for (size_t index = 0; index < count; ++index) {
    Element value{};
    for (size_t member = 0; member < slot.inputs.size(); ++member) {
      Element other;
      std::memcpy(&other, slot.inputs[member].data() + (first + index) * sizeof(Element), sizeof(Element));
      if (member == 0) value = other;
      else if (operation == ncclSum) value += other;
      else if (operation == ncclMax) value = other > value ? other : value;
      else value = other < value ? other : value;
    }
    std::memcpy(static_cast<char*>(output) + index * sizeof(Element), &value, sizeof(Element));
  }
}

void reduce(const Slot& slot, const Call& call, size_t first) {
  if (call.type == ncclFloat32) reduce<float>(slot, first, call.count, call.parameter, call.output);
  if (call.type == ncclInt32) reduce<int>(slot, first, call.count, call.parameter, call.output);
}

void collective(const std::shared_ptr<Member>& member, uint64_t sequence, const Call& call) {
  Clique& clique = *member->clique;
  const size_t size = static_cast<size_t>(clique.size), rank = static_cast<size_t>(member->rank);
  const size_t element = bytes_of(call.type);
  const size_t input_bytes = call.count * element * (call.kind == Kind::kReduceScatter ? size : 1);
  std::unique_lock<std::mutex> lock(clique.mutex);
  Slot& slot = clique.slots[sequence];
  slot.inputs.resize(size);
  const char* input = static_cast<const char*>(call.input);
  slot.inputs[rank].assign(input, input + input_bytes);
  for (const Call& other : slot.calls) slot.is_consistent = slot.is_consistent && call.fits(other);
  slot.calls.push_back(call);
  ++slot.num_arrived;
  clique.changed.notify_all();
  const Hanging hanging;
  clique.changed.wait(lock, [&] {
    return (slot.num_arrived == clique.size && slot.is_consistent && member->may_go_on()) || member->is_aborted;
  });
  if (member->is_aborted) return;
  if (call.kind == Kind::kAllReduce) reduce(slot, call, 0);
  if (call.kind == Kind::kReduceScatter) reduce(slot, call, rank * call.count);
  if (call.kind == Kind::kBroadcast) {
    std::memcpy(call.output, slot.inputs[static_cast<size_t>(call.parameter)].data(), input_bytes);
  }
  if (call.kind == Kind::kAllGather) {
    for (size_t other = 0; other < size; ++other) {
      std::memcpy(static_cast<char*>(call.output) + other * input_bytes, slot.inputs[other].data(), input_bytes);
    }
  }
  if (++slot.num_left == clique.size) clique.slots.erase(sequence);
}

// Runs the messages of one group of calls: all sends are started before it waits for a receive.
void messages(const std::shared_ptr<Member>& member, const std::vector<Call>& calls) {
  Clique& clique = *member->clique;
  std::unique_lock<std::mutex> lock(clique.mutex);
  for (const Call& call : calls) {
    if (call.kind != Kind::kSend) continue;
    const char* input = static_cast<const char*>(call.input);
    clique.mail[{member->rank, call.parameter}].emplace_back(input, input + call.count * bytes_of(call.type));
  }
  clique.changed.notify_all();
  const Hanging hanging;
  for (const Call& call : calls) {
    if (call.kind != Kind::kReceive) continue;
    auto& box = clique.mail[{call.parameter, member->rank}];
    const size_t bytes = call.count * bytes_of(call.type);
    clique.changed.wait(lock, [&] {
      return (!box.empty() && box.front().size() == bytes && member->may_go_on()) || member->is_aborted;
    });
    if (member->is_aborted) return;
    std::memcpy(call.output, box.front().data(), bytes);
    box.pop_front();
    clique.changed.notify_all();
  }
  for (const Call& call : calls) {  // a send is complete when it has been received
    if (call.kind != Kind::kSend) continue;
    auto& box = clique.mail[{member->rank, call.parameter}];
    clique.changed.wait(lock, [&] { return box.empty() || member->is_aborted; });
  }
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Member> member;
  uint64_t next_sequence = 0;
  int polls_left = 0;
  std::function<void()> unfinished;  // a launch that advances with each poll
};

namespace {

thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm_t, CUstream>> group_comms;
thread_local std::vector<Call> group_calls;
thread_local std::vector<ncclComm_t> group_aborts;

bool is_connecting(ncclComm_t comm) {
  Clique& clique = *comm->member->clique;
  const std::lock_guard<std::mutex> lock(clique.mutex);
  return clique.num_joined < clique.size || settings[kFakeInitHangs] != 0;
}

void enqueue(CUstream stream, std::function<void()> work) {
  mtl_fake_enqueue(stream, [](void* argument) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(argument));
    (*owned)();
  }, new std::function<void()>(std::move(work)));
}

ncclResult_t launch(ncclComm_t comm, CUstream stream, std::function<void()> work) {
  if (!mtl_fake_has_context()) return ncclUnhandledCudaError;
  if (is_connecting(comm) || comm->unfinished) return ncclInvalidUsage;
  const auto put = [=] {
    ++counts[kFakeLaunches];
    enqueue(stream, work);
  };
  if (settings[kFakeLaunchPolls] == 0 && settings[kFakeLaunchIsHeld] == 0) return put(), ncclSuccess;
  comm->polls_left = settings[kFakeLaunchPolls];
  comm->unfinished = put;
  ++counts[kFakeHeld];
  return ncclInProgress;
}

ncclResult_t start(const Call& call, ncclComm_t comm, CUstream stream) {
  const bool is_message = call.kind == Kind::kSend || call.kind == Kind::kReceive;
  const std::shared_ptr<Member> member = comm->member;
  if (is_message && group_depth > 0) {
    group_comms.emplace_back(comm, stream);
    group_calls.push_back(call);
    return ncclSuccess;
  }
  if (is_message) return launch(comm, stream, [=] { messages(member, {call}); });
  const bool is_reduction = call.kind == Kind::kAllReduce || call.kind == Kind::kReduceScatter;
  if (is_reduction && call.type != ncclFloat32 && call.type != ncclInt32) return ncclInvalidArgument;
  const uint64_t sequence = comm->next_sequence++;
  return launch(comm, stream, [=] { collective(member, sequence, call); });
}

// Ends the kernels of the communicators and then releases the communicators.
void leave(const std::vector<ncclComm_t>& comms) {
  for (const ncclComm_t comm : comms) {
    Clique& clique = *comm->member->clique;
    const std::lock_guard<std::mutex> lock(clique.mutex);
    comm->member->is_aborted = true;
    clique.changed.notify_all();
  }
  wait_for_device();
  for (const ncclComm_t comm : comms) {
    --counts[kFakeCommunicators];
    delete comm;
  }
}

}  // namespace

void mtl_fake_set(int setting, int value) { settings[setting] = value; }
int mtl_fake_count(int count) { return counts[count]; }

#define EXPORTED extern "C" __attribute__((visibility("default"))) ncclResult_t

EXPORTED ncclGetVersion(int* version) { return *version = settings[kFakeVersion], ncclSuccess; }

EXPORTED ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  std::memset(id->internal, 0, sizeof(id->internal));
  std::snprintf(id->internal + 3, 64, "clique %d", next++);  // zero bytes at the start, which real ids may have as well
  return ncclSuccess;
}

EXPORTED ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (!mtl_fake_has_context()) return ncclUnhandledCudaError;
  if (config->blocking != 0 || config->magic != NCCL_API_MAGIC) return ncclInvalidArgument;
  *comm = new ncclComm;
  {
    const std::lock_guard<std::mutex> lock(cliques_mutex);
    std::weak_ptr<Clique>& known = cliques[id.internal + 3];
    std::shared_ptr<Clique> clique = known.lock();
    if (clique == nullptr) known = clique = std::make_shared<Clique>(size);
    (*comm)->member = std::make_shared<Member>();
    (*comm)->member->clique = clique;
    (*comm)->member->rank = rank;
  }
  Clique& clique = *(*comm)->member->clique;
  const std::lock_guard<std::mutex> lock(clique.mutex);
  ++clique.num_joined;
  ++counts[kFakeCommunicators];
  return ncclInProgress;
}

EXPORTED ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = static_cast<ncclResult_t>(settings[kFakeAsyncError].load());
  if (*error != ncclSuccess) return ncclSuccess;
  if (is_connecting(comm)) return *error = ncclInProgress, ncclSuccess;
  if (!comm->unfinished) return ncclSuccess;
  if (settings[kFakeLaunchIsHeld] != 0 || comm->polls_left-- > 0) return *error = ncclInProgress, ncclSuccess;
  comm->unfinished();
  comm->unfinished = nullptr;
  return ncclSuccess;
}

EXPORTED ncclCommFinalize(ncclComm_t) { return ncclInProgress; }
EXPORTED ncclCommDestroy(ncclComm_t comm) { return ++counts[kFakeDestroys], leave({comm}), ncclSuccess; }
EXPORTED ncclCommAbort(ncclComm_t comm) {
  ++counts[kFakeAborts];
  if (group_depth > 0) group_aborts.push_back(comm);
  else leave({comm});
  return ncclSuccess;
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "error of the fake";
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(ncclComm_t) { return "last words"; }

EXPORTED ncclGroupStart() { return ++group_depth, ncclSuccess; }
EXPORTED ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  if (!group_aborts.empty()) return leave(std::exchange(group_aborts, {})), ncclSuccess;
  if (group_comms.empty()) return ncclSuccess;
  const std::vector<Call> calls = std::move(group_calls);
  const auto [comm, stream] = group_comms.front();  // the engine uses only one communicator per group
  group_calls.clear();
  group_comms.clear();
  const std::shared_ptr<Member> member = comm->member;
  return launch(comm, stream, [=] { messages(member, calls); });
}

EXPORTED ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                       ncclComm_t comm, cudaStream_t stream) {
  return start({Kind::kAllReduce, input, output, count, type, operation}, comm, stream);
}
EXPORTED ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                       cudaStream_t stream) {
  return start({Kind::kAllGather, input, output, count, type, 0}, comm, stream);
}
EXPORTED ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  return start({Kind::kReduceScatter, input, output, count, type, operation}, comm, stream);
}
EXPORTED ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return start({Kind::kBroadcast, input, output, count, type, root}, comm, stream);
}
EXPORTED ncclSend(const void* input, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return start({Kind::kSend, input, nullptr, count, type, peer}, comm, stream);
}
EXPORTED ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return start({Kind::kReceive, nullptr, output, count, type, peer}, comm, stream);
}
