// Tests of the staged engine over shared memory, with a fake device (thread_stream.h) whose streams run
// asynchronously and late.
#include "engines/staged/staged_communicator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/gate.h"
#include "tests/native_test.h"
#include "tests/thread_stream.h"

namespace mtl::comm::tests {
namespace {

// The device resources of one member.
struct Device {
  MtlDeviceApi api{};
  ThreadStream streams[3];
  static std::atomic<int> num_events, num_pinned;
  static std::atomic<bool> copies_fail;
};
std::atomic<int> Device::num_events{0}, Device::num_pinned{0};
std::atomic<bool> Device::copies_fail{false};

template <int member>
Device*& device_of() {
  static Device* device = nullptr;
  return device;
}

int create_event(void** event) { return ++Device::num_events, *event = new ThreadEvent, 0; }
int destroy_event(void* event) { return --Device::num_events, delete static_cast<ThreadEvent*>(event), 0; }

// Returns a function that puts a task into the stream.
auto into(void* stream) {
  return [stream](std::function<void()> task) { static_cast<ThreadStream*>(stream)->enqueue(std::move(task)); };
}

int record_event(void* event, void* stream) { return static_cast<ThreadEvent*>(event)->record(into(stream)), 0; }
int wait_event(void* stream, void* event) { return static_cast<ThreadEvent*>(event)->make_wait(into(stream)), 0; }
int query_event(void* event) { return static_cast<ThreadEvent*>(event)->is_reached() ? 1 : 0; }

int copy_async(void* destination, const void* source, uint64_t bytes, void* stream) {
  if (Device::copies_fail) return -1;
  static_cast<ThreadStream*>(stream)->enqueue([=] {
    if (bytes > 0) std::memcpy(destination, source, bytes);
  });
  return 0;
}

// Released pinned memory is overwritten, so that a read after the release gets wrong values.
std::mutex pinned_mutex;
std::map<void*, size_t> pinned;
int allocate_pinned(uint64_t bytes, void** data) {
  const std::lock_guard<std::mutex> lock(pinned_mutex);
  *data = std::malloc(bytes + 1);
  pinned[*data] = bytes + 1;
  return ++Device::num_pinned, 0;
}
void release_pinned(void* data) {
  const std::lock_guard<std::mutex> lock(pinned_mutex);
  std::memset(data, 0xee, pinned[data]);
  pinned.erase(data);
  std::free(data);
  --Device::num_pinned;
}

const char* last_error() { return "the device's last words"; }

template <int member>
void* stream_of(int32_t which) {
  return &device_of<member>()->streams[which];
}

constexpr int kMembers = 3;

// A staged group whose members are threads, each with its own device.
class StagedThreads {
 public:
  explicit StagedThreads(int64_t timeout_ms = 20000)
      : hosts_(kMembers, 4096, timeout_ms, [this](int member, std::unique_ptr<Communicator> host) {
          return std::unique_ptr<Communicator>(new staged::StagedCommunicator(std::move(host), &open(member).api));
        }) {}

  Device& device(int member) { return *devices_[static_cast<size_t>(member)]; }
  ThreadStream& compute(int member) { return device(member).streams[MTL_STREAM_COMPUTE]; }
  ThreadedGroup& threads() { return hosts_; }
  // Waits until the member's compute stream is empty.
  void synchronize(int member) {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    compute(member).enqueue([&] {
      const std::lock_guard<std::mutex> lock(mutex);
      is_done = true;
      changed.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return is_done; });
  }

 private:
  Device& open(int member) {
    devices_.emplace_back(new Device);
    Device* const device = devices_.back().get();
    using StreamOf = void* (*)(int32_t);
    const StreamOf streams[kMembers] = {stream_of<0>, stream_of<1>, stream_of<2>};
    Device** const places[kMembers] = {&device_of<0>(), &device_of<1>(), &device_of<2>()};
    *places[member] = device;
    device->api = {0,          {},          streams[member], create_event,    destroy_event,  record_event, wait_event,
                   query_event, copy_async, allocate_pinned, release_pinned, last_error};
    return *device;
  }

  std::vector<std::unique_ptr<Device>> devices_;  // declared before the groups, which are destroyed first
  ThreadedGroup hosts_;
};

OperationRequest request_of(OperationKind kind, std::vector<float>* input, std::vector<float>* output, int peer = -1) {
  OperationRequest request;
  request.kind = kind;
  request.peer = peer;
  request.memory = Memory::kDevice;
  if (input != nullptr) request.input = input->data(), request.input_bytes = input->size() * sizeof(float);
  if (output != nullptr) request.output = output->data(), request.output_bytes = output->size() * sizeof(float);
  return request;
}

void expect_all_given_back() {
  EXPECT(Device::num_events == 0);
  EXPECT(Device::num_pinned == 0);
}

// Enqueues a slow kernel: work that does not wait for it runs earlier. It sleeps a few times instead of
// yielding often, because on a busy machine each yield costs a time slice.
void slow_kernel(ThreadStream* compute, std::vector<float>* values, float value) {
  compute->enqueue([=] {
    constexpr size_t kParts = 8;
    const size_t size = values->size();
    for (size_t part = 0; part < kParts; ++part) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      for (size_t i = part * size / kParts; i < (part + 1) * size / kParts; ++i) (*values)[i] = value;
    }
  });
}

MTL_TEST(staged_collectives_come_behind_earlier_kernels_and_before_later_ones) {
  {
    StagedThreads ranks;
    ranks.threads().run([&](int member) {
      const float mine = static_cast<float>(member + 1);
      for (int round = 0; round < 4; ++round) {
        std::vector<float> sum(3000, -1), gathered(3 * kMembers, -1), part(3, -1), whole(3 * kMembers, -1), rooted(5, -1);
        Group& group = ranks.threads().group(member);
        for (std::vector<float>* values : {&sum, &part, &whole}) slow_kernel(&ranks.compute(member), values, mine);
        slow_kernel(&ranks.compute(member), &rooted, mine);
        std::vector<Group::Work> works;
        works.push_back(group.start(request_of(OperationKind::kAllReduce, &sum, &sum)));
        works.push_back(group.start(request_of(OperationKind::kAllGather, &part, &gathered)));
        works.push_back(group.start(request_of(OperationKind::kBroadcast, &rooted, &rooted, 1)));
        // the result goes into memory that an earlier kernel, already enqueued, still writes
        std::vector<float> scattered(3, -1);
        slow_kernel(&ranks.compute(member), &scattered, 77);
        works.push_back(group.start(request_of(OperationKind::kReduceScatter, &whole, &scattered)));
        for (Group::Work& work : works) EXPECT(succeeded(work.wait()));
        std::vector<float> seen;
        ranks.compute(member).enqueue([&] { seen = {sum[0], sum[2999], gathered[0], gathered[8], rooted[4], scattered[2]}; });
        ranks.synchronize(member);
        EXPECT((seen == std::vector<float>{6, 6, 1, 3, 2, 6}));
      }
    });
  }
  expect_all_given_back();
}

MTL_TEST(staged_messages_do_not_wait_for_each_other) {
  {
    StagedThreads ranks;
    ranks.threads().run([&](int member) {
      Group& group = ranks.threads().group(member);
      const int next = (member + 1) % kMembers, last = (member + kMembers - 1) % kMembers;
      std::vector<float> received(70000, -1), sent(70000, -1);
      Group::Work early = group.start(request_of(OperationKind::kReceive, nullptr, &received, last));
      slow_kernel(&ranks.compute(member), &sent, static_cast<float>(member));
      Group::Work send = group.start(request_of(OperationKind::kSend, &sent, nullptr, next));
      EXPECT(succeeded(early.wait()));
      EXPECT(succeeded(send.wait()));
      ranks.synchronize(member);
      EXPECT(received == std::vector<float>(70000, static_cast<float>(last)));
    });
  }
  expect_all_given_back();
}

MTL_TEST(staged_results_come_behind_kernels_that_still_use_their_memory) {
  StagedThreads ranks;
  ranks.threads().run([&](int member) {
    Group& group = ranks.threads().group(member);
    std::vector<float> values(70000, 5);
    if (member == 1) EXPECT(succeeded(group.start(request_of(OperationKind::kSend, &values, nullptr, 0)).wait()));
    if (member != 0) return;
    Gate has_come;
    ranks.compute(0).enqueue([&] { has_come.wait(); });
    slow_kernel(&ranks.compute(0), &values, 77);
    EXPECT(succeeded(group.start(request_of(OperationKind::kReceive, nullptr, &values, 1)).wait()));
    has_come.open();  // the message is on the host, and its copy to the device is enqueued
    ranks.synchronize(0);
    EXPECT(values == std::vector<float>(70000, 5));
  });
}

MTL_TEST(staged_groups_take_tensors_of_the_host_as_well) {
  StagedThreads ranks;
  ranks.threads().run([&](int member) {
    Group& group = ranks.threads().group(member);
    EXPECT(std::string(group.engine()) == "staged+local");
    std::vector<float> on_device{1}, on_host{2};
    OperationRequest request = request_of(OperationKind::kAllReduce, &on_host, &on_host);
    request.memory = Memory::kHost;
    Group::Work first = group.start(request_of(OperationKind::kAllReduce, &on_device, &on_device));
    EXPECT(succeeded(group.start(request).wait()));
    EXPECT(succeeded(first.wait()));
    ranks.synchronize(member);
    EXPECT(on_host[0] == 6 && on_device[0] == 3);
  });
}

MTL_TEST(staged_members_learn_who_never_came_and_whose_device_failed) {
  {
    StagedThreads ranks(1000);
    Gate here[2];
    ranks.threads().run([&](int member) {
      if (member == 2) return;
      std::vector<float> values{1};
      Group& group = ranks.threads().group(member);
      // both members have started before the timeout of either begins; otherwise a member that starts slowly
      // would be reported as late
      here[member].open();
      here[1 - member].wait();
      const Status status = group.start(request_of(OperationKind::kAllReduce, &values, &values)).wait();
      EXPECT(failed_with(status, "MTL_TIMEOUT"));
      EXPECT(status.failure().rank == 12);
    });
  }
  {
    StagedThreads ranks;
    Device::copies_fail = true;
    std::vector<float> values{1};
    const Status status = ranks.threads().group(0).start(request_of(OperationKind::kAllReduce, &values, &values)).wait();
    EXPECT(failed_with(status, "MTL_CUDA"));
    EXPECT(status.failure().message.find("last words") != std::string::npos);
    Device::copies_fail = false;
  }
  expect_all_given_back();
}

}  // namespace
}  // namespace mtl::comm::tests
