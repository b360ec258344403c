// Calls of other threads while a graph of the compute stream is recorded: engines of ranks receive at any
// time.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "backends/cuda/loader/cuda_loader.h"
#include "tests/cuda_for_tests.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

// How long a test waits for an event that must not happen. Without a guard the event takes microseconds.
constexpr auto kMeanwhile = std::chrono::milliseconds(200);

// An engine's thread, making one call.
class Engine {
 public:
  explicit Engine(std::function<int()> call)
      : thread_([this, call = std::move(call)] {
          const int result = call();
          const std::lock_guard<std::mutex> lock(mutex_);
          result_ = result;
          is_done_ = true;
          changed_.notify_all();
        }) {}
  bool is_done_within(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return is_done_; });
  }
  int result() {
    thread_.join();
    return result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  int result_ = -2;
  std::thread thread_;  // the last member, because the thread uses the others
};

// The resources with which an engine orders streams.
struct Transfer {
  Transfer() {
    EXPECT(api->create_event(&event) == 0);
    EXPECT(api->record_event(event, api->stream(MTL_STREAM_COPY)) == 0);
    EXPECT(api->allocate_pinned(sizeof(int), &from) == 0 && api->allocate_pinned(sizeof(int), &to) == 0);
  }
  ~Transfer() {
    EXPECT(succeeded(cuda_backend()->synchronize()));
    EXPECT(api->destroy_event(event) == 0);
    for (void* const data : {from, to}) api->release_pinned(data);
  }
  const MtlDeviceApi* const api = cuda_device_api();
  void *event = nullptr, *from = nullptr, *to = nullptr;
};

// Ends the recording and returns whether it produced a graph.
bool is_recorded() {
  void* graph = nullptr;
  const bool is_whole = succeeded(cuda_backend()->graphs->end_capture(&graph));
  if (is_whole) cuda_backend()->graphs->destroy(graph);
  return is_whole;
}

MTL_TEST(what_other_threads_enqueue_in_the_stream_of_a_graph_comes_after_it) {
  if (!open_cuda_for_tests()) return;
  Transfer transfer;
  const MtlDeviceApi* const api = transfer.api;
  void* const compute = api->stream(MTL_STREAM_COMPUTE);
  const std::function<int()> calls[] = {
      [&] { return api->wait_event(compute, transfer.event); },
      [&] { return api->record_event(transfer.event, compute); },
      [&] { return api->copy_async(transfer.to, transfer.from, sizeof(int), compute); },
  };
  for (const auto& call : calls) {
    EXPECT(succeeded(cuda_backend()->graphs->begin_capture()));
    Engine engine(call);
    EXPECT(!engine.is_done_within(kMeanwhile));
    EXPECT(is_recorded());
    EXPECT(engine.result() == 0);
  }
}

// No thread waits forever, even if the recording turns out not to be possible.
MTL_TEST(other_threads_continue_after_a_failed_recording) {
  if (!open_cuda_for_tests()) return;
  Transfer transfer;
  EXPECT(succeeded(cuda_backend()->graphs->begin_capture()));
  Engine engine([&] { return transfer.api->wait_event(transfer.api->stream(MTL_STREAM_COMPUTE), transfer.event); });
  EXPECT(failed_with(cuda_backend()->graphs->begin_capture(), "MTL_CAPTURE"));
  EXPECT(succeeded(cuda_backend()->graphs->end_capture(nullptr)));
  EXPECT(engine.result() == 0);
}

MTL_TEST(what_other_threads_do_in_other_streams_goes_on_while_a_graph_is_recorded) {
  if (!open_cuda_for_tests()) return;
  Transfer transfer;
  const MtlDeviceApi* const api = transfer.api;
  void* const copies = api->stream(MTL_STREAM_COPY);
  *static_cast<int*>(transfer.from) = 7;
  EXPECT(succeeded(cuda_backend()->graphs->begin_capture()));
  // the calls of a receiving engine before it makes the compute stream wait
  Engine engine([&] {
    return api->wait_event(copies, transfer.event) == 0 &&
                   api->copy_async(transfer.to, transfer.from, sizeof(int), copies) == 0 &&
                   api->record_event(transfer.event, copies) == 0 && api->query_event(transfer.event) >= 0
               ? 0
               : -1;
  });
  EXPECT(engine.result() == 0);
  EXPECT(is_recorded());
  while (api->query_event(transfer.event) == 0) std::this_thread::yield();
  EXPECT(*static_cast<int*>(transfer.to) == 7);
}

MTL_TEST(the_thread_that_records_is_told_what_cannot_be_part_of_a_graph) {
  if (!open_cuda_for_tests()) return;
  Transfer transfer;
  const MtlDeviceApi* const api = transfer.api;
  EXPECT(api->refuse_in_graph("a collective") == 0);
  EXPECT(succeeded(cuda_backend()->graphs->begin_capture()));
  EXPECT(api->refuse_in_graph("a collective") == -1);
  EXPECT(std::strstr(api->last_error(), "a collective cannot be part of a graph") != nullptr);
  // fails instead of waiting for the end of its own recording
  EXPECT(api->wait_event(api->stream(MTL_STREAM_COMPUTE), transfer.event) == -1);
  EXPECT(Engine([&] { return api->refuse_in_graph("a collective"); }).result() == 0);
  EXPECT(is_recorded());
  EXPECT(api->refuse_in_graph("a collective") == 0);
}

}  // namespace
}  // namespace mtl::tests
