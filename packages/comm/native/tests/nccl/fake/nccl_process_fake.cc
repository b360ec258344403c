// A fake of libnccl.so.2 whose members are processes: they write their data to files in the directory
// MTL_NCCL_FAKE_DIRECTORY and read the others' files there. Slow, and truly asynchronous: an operation runs
// on the stream's thread of the fake of libcuda.so.1, and ends only when all members have arrived, or by an
// abort. Sums of float32 only.
#include <nccl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fake_control.h"

namespace {

using Bytes = std::vector<char>;

std::string directory() {
  const char* named = std::getenv("MTL_NCCL_FAKE_DIRECTORY");
  return named == nullptr ? "/tmp" : named;
}

// Writes a file that appears at once, with its whole content.
void leave(const std::string& path, const Bytes& bytes) {
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (file == nullptr) return;
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  std::rename(partial.c_str(), path.c_str());
}

bool find(const std::string& path, Bytes* bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  struct stat facts;
  fstat(fileno(file), &facts);
  bytes->resize(static_cast<size_t>(facts.st_size));
  const size_t read = std::fread(bytes->data(), 1, bytes->size(), file);
  std::fclose(file);
  return read == bytes->size();
}

size_t bytes_of(ncclDataType_t type) {
  if (type == ncclUint8) return 1;
  if (type == ncclFloat16 || type == ncclBfloat16) return 2;
  return type == ncclInt64 || type == ncclFloat64 ? 8 : 4;
}

struct Member {
  std::string path;  // prefix of the communicator's file names
  int rank, size;
  std::atomic<bool> is_aborted{false};

  std::string file(const std::string& what, int from) const { return path + "." + what + "." + std::to_string(from); }
  // Waits for a file of member `from`. Returns false if this member is aborted first.
  bool await(const std::string& what, int from, Bytes* bytes) const {
    while (!find(file(what, from), bytes)) {
      if (is_aborted) return false;
      usleep(1000);
    }
    return !is_aborted;
  }
};

Bytes copy_of(const void* data, size_t bytes) {
  const char* first = static_cast<const char*>(data);
  return Bytes(first, first + bytes);
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Member> member;
  uint64_t next = 0;               // the number of this communicator's next collective
  std::vector<uint64_t> sent, received;  // messages by peer
};

namespace {

thread_local int group_depth = 0;
thread_local std::vector<std::function<void()>> group_sends, group_receives;
thread_local CUstream group_stream = nullptr;

void enqueue(CUstream stream, std::function<void()> work) {
  mtl_fake_enqueue(stream, [](void* argument) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(argument));
    (*owned)();
  }, new std::function<void()>(std::move(work)));
}

// Runs a collective: writes this member's part, waits for all parts, and computes the result.
ncclResult_t collective(ncclComm_t comm, CUstream stream, const void* input, size_t bytes,
                        std::function<void(const Member&, const std::vector<Bytes>&)> finish) {
  const std::shared_ptr<Member> member = comm->member;
  const std::string what = "collective" + std::to_string(comm->next++);
  enqueue(stream, [=] {
    leave(member->file(what, member->rank), copy_of(input, bytes));
    std::vector<Bytes> parts(static_cast<size_t>(member->size));
    for (int other = 0; other < member->size; ++other) {
      if (!member->await(what, other, &parts[static_cast<size_t>(other)])) return;
    }
    finish(*member, parts);
  });
  return ncclSuccess;
}

// Reduces the parts of all members, from element `first` on, in rank order.
void reduce(const std::vector<Bytes>& parts, size_t first, size_t count, ncclDataType_t type, ncclRedOp_t operation,
            void* output) {
  for (size_t index = 0; index < count; ++index) {
    if (type == ncclInt32) continue;  // the data of a barrier
    float result = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      float value;
      std::memcpy(&value, parts[part].data() + (first + index) * sizeof(float), sizeof(float));
      if (part == 0) result = value;
      else if (operation == ncclSum) result += value;
      else if (operation == ncclMax) result = value > result ? value : result;
      else result = value < result ? value : result;
    }
    std::memcpy(static_cast<char*>(output) + index * sizeof(float), &result, sizeof(float));
  }
}

ncclResult_t post(std::vector<std::function<void()>>* queue, CUstream stream, std::function<void()> work) {
  if (group_depth == 0) return enqueue(stream, std::move(work)), ncclSuccess;
  queue->push_back(std::move(work));
  group_stream = stream;
  return ncclSuccess;
}

}  // namespace

#define EXPORTED MTL_FAKE_EXPORT ncclResult_t

EXPORTED ncclGetVersion(int* version) { return *version = 23007, ncclSuccess; }

EXPORTED ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  std::memset(id->internal, 0, sizeof(id->internal));
  std::snprintf(id->internal, sizeof(id->internal), "clique-%d-%d", getpid(), next++);
  return ncclSuccess;
}

EXPORTED ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (!mtl_fake_has_context()) return ncclUnhandledCudaError;
  if (config->blocking != 0 || config->magic != NCCL_API_MAGIC) return ncclInvalidArgument;
  *comm = new ncclComm;
  (*comm)->member = std::make_shared<Member>();
  Member& member = *(*comm)->member;
  member.path = directory() + "/" + id.internal;
  member.rank = rank;
  member.size = size;
  (*comm)->sent.resize(static_cast<size_t>(size));
  (*comm)->received.resize(static_cast<size_t>(size));
  leave(member.file("joined", rank), {});
  return ncclInProgress;
}

EXPORTED ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = ncclSuccess;
  for (int other = 0; other < comm->member->size; ++other) {
    if (access(comm->member->file("joined", other).c_str(), F_OK) != 0) *error = ncclInProgress;
  }
  return ncclSuccess;
}

EXPORTED ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
EXPORTED ncclCommDestroy(ncclComm_t comm) { return delete comm, ncclSuccess; }
EXPORTED ncclCommAbort(ncclComm_t comm) {
  comm->member->is_aborted = true;
  leave(comm->member->file("aborted", comm->member->rank), {});
  return delete comm, ncclSuccess;
}
MTL_FAKE_EXPORT const char* ncclGetErrorString(ncclResult_t) { return "error of the fake"; }
MTL_FAKE_EXPORT const char* ncclGetLastError(ncclComm_t) { return ""; }

EXPORTED ncclGroupStart() { return ++group_depth, ncclSuccess; }
EXPORTED ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  // starts all sends before it waits for a receive
  for (auto* queue : {&group_sends, &group_receives}) {
    for (std::function<void()>& work : *queue) enqueue(group_stream, std::move(work));
    queue->clear();
  }
  return ncclSuccess;
}

EXPORTED ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                       ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 && type != ncclInt32) return ncclInvalidArgument;
  return collective(comm, stream, input, count * bytes_of(type), [=](const Member&, const std::vector<Bytes>& parts) {
    reduce(parts, 0, count, type, operation, output);
  });
}
EXPORTED ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32) return ncclInvalidArgument;
  const size_t bytes = count * bytes_of(type) * static_cast<size_t>(comm->member->size);
  return collective(comm, stream, input, bytes, [=](const Member& member, const std::vector<Bytes>& parts) {
    reduce(parts, static_cast<size_t>(member.rank) * count, count, type, operation, output);
  });
}
EXPORTED ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                       cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  return collective(comm, stream, input, bytes, [=](const Member&, const std::vector<Bytes>& parts) {
    for (size_t part = 0; part < parts.size(); ++part) {
      std::memcpy(static_cast<char*>(output) + part * bytes, parts[part].data(), bytes);
    }
  });
}
EXPORTED ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  return collective(comm, stream, input, bytes, [=](const Member&, const std::vector<Bytes>& parts) {
    std::memcpy(output, parts[static_cast<size_t>(root)].data(), bytes);
  });
}
EXPORTED ncclSend(const void* input, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const std::shared_ptr<Member> member = comm->member;
  const size_t bytes = count * bytes_of(type);
  const uint64_t number = comm->sent[static_cast<size_t>(peer)]++;
  const std::string what = "message" + std::to_string(number) + "to" + std::to_string(peer);
  return post(&group_sends, stream, [=] { leave(member->file(what, member->rank), copy_of(input, bytes)); });
}
EXPORTED ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const std::shared_ptr<Member> member = comm->member;
  const size_t bytes = count * bytes_of(type);
  const uint64_t number = comm->received[static_cast<size_t>(peer)]++;
  const std::string what = "message" + std::to_string(number) + "to" + std::to_string(member->rank);
  return post(&group_receives, stream, [=] {
    Bytes message;
    if (member->await(what, peer, &message) && message.size() == bytes) std::memcpy(output, message.data(), bytes);
  });
}
