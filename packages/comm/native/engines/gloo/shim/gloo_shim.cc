// Implements gloo_shim.h. Gloo is used only as a transport (device, pairs, unbound buffers); the collectives
// are this project's own.
#include "gloo_shim.h"

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using gloo::transport::UnboundBuffer;

void abort_wait(UnboundBuffer* buffer, bool is_send) {
  if (is_send) {
    buffer->abortWaitSend();
  } else {
    buffer->abortWaitRecv();
  }
}

// Interrupts waits at their deadline. Gloo's own timeout is not used, because it would end every connection
// of the context. The alarm's thread sleeps while no wait is registered.
class Alarm {
 public:
  ~Alarm() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void set(UnboundBuffer* buffer, bool is_send, Clock::time_point due) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread(&Alarm::run, this);
    waits_.push_back({buffer, is_send, due});
    // notifies the thread if it would otherwise sleep until after `due`
    if (due < next_) changed_.notify_all();
  }

  void clear(UnboundBuffer* buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_it = [&](const Wait& wait) { return wait.buffer == buffer; };
    waits_.erase(std::remove_if(waits_.begin(), waits_.end(), is_it), waits_.end());
  }

 private:
  struct Wait {
    UnboundBuffer* buffer;
    bool is_send;
    Clock::time_point due;
  };

  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_ending_) {
      const Clock::time_point now = Clock::now();
      next_ = Clock::time_point::max();
      for (Wait& wait : waits_) {
        if (wait.due <= now) {
          abort_wait(wait.buffer, wait.is_send);
          // the first interruption may come before the wait has begun, so a second interruption follows after
          // 20 ms
          wait.due = now + std::chrono::milliseconds(20);
        }
        next_ = std::min(next_, wait.due);
      }
      if (next_ == Clock::time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, next_);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Wait> waits_;
  Clock::time_point next_ = Clock::time_point::max();  // when the thread will check again
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace

struct MtlGlooContext {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
  Alarm alarm;
};

struct MtlGlooTransfer {
  std::unique_ptr<UnboundBuffer> buffer;
  bool is_send;
  Alarm* alarm;
};

namespace {

// A timeout for Gloo that is never reached, because the alarm interrupts the wait much earlier.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(1000);

void describe(const std::exception& exception, char* error) {
  std::snprintf(error, MTL_GLOO_ERROR_BYTES, "%s", exception.what());
}

template <typename Result, typename Body>
Result guarded(Result failed, char* error, const Body& body) {
  try {
    return body();
  } catch (const std::exception& exception) {
    describe(exception, error);
  } catch (...) {
    std::snprintf(error, MTL_GLOO_ERROR_BYTES, "an unknown failure in Gloo");
  }
  return failed;
}

bool wait_for(MtlGlooTransfer* transfer) {
  return transfer->is_send ? transfer->buffer->waitSend(kForever) : transfer->buffer->waitRecv(kForever);
}

MtlGlooContext* open_context(const char* address, int member, int size, int64_t timeout_ms, char* error) {
  return guarded<MtlGlooContext*>(nullptr, error, [&] {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    std::unique_ptr<MtlGlooContext> opened(new MtlGlooContext);
    opened->device = gloo::transport::tcp::CreateDevice(attributes);
    opened->context = opened->device->createContext(member, size);
    // the value is divided by five because a pair waits five times the given timeout for its connection
    opened->context->setTimeout(std::chrono::milliseconds(std::max<int64_t>(1, (timeout_ms + 4) / 5)));
    for (int other = 0; other < size; ++other) {
      if (other != member) opened->context->createPair(other);
    }
    return opened.release();
  });
}

void close_context(MtlGlooContext* context) { delete context; }

size_t address_for(MtlGlooContext* context, int other, void* bytes, char* error) {
  return guarded<size_t>(0, error, [&]() -> size_t {
    const std::vector<char> address = context->context->getPair(other)->address().bytes();
    if (address.size() > MTL_GLOO_ADDRESS_BYTES) throw std::length_error("an address that is too long");
    std::memcpy(bytes, address.data(), address.size());
    return address.size();
  });
}

int connect_to(MtlGlooContext* context, int other, const void* address, size_t bytes, char* error) {
  return guarded<int>(MTL_GLOO_FAILED, error, [&] {
    const char* first = static_cast<const char*>(address);
    context->context->getPair(other)->connect(std::vector<char>(first, first + bytes));
    return MTL_GLOO_DONE;
  });
}

void hang_up(MtlGlooContext* context, int other) {
  char ignored[MTL_GLOO_ERROR_BYTES];
  guarded<int>(0, ignored, [&] {
    context->context->getPair(other)->close();
    return 0;
  });
}

MtlGlooTransfer* start(MtlGlooContext* context, int other, uint64_t channel, int is_send, void* data, size_t bytes,
                       char* error) {
  return guarded<MtlGlooTransfer*>(nullptr, error, [&] {
    std::unique_ptr<MtlGlooTransfer> transfer(new MtlGlooTransfer);
    transfer->buffer = context->context->createUnboundBuffer(data, bytes);
    transfer->is_send = is_send != 0;
    transfer->alarm = &context->alarm;
    if (transfer->is_send) {
      transfer->buffer->send(other, channel, 0, bytes);
    } else {
      transfer->buffer->recv(other, channel, 0, bytes);
    }
    return transfer.release();
  });
}

int wait(MtlGlooTransfer* transfer, int64_t timeout_ms, char* error) {
  UnboundBuffer* buffer = transfer->buffer.get();
  transfer->alarm->set(buffer, transfer->is_send, Clock::now() + std::chrono::milliseconds(timeout_ms));
  const int result = guarded<int>(MTL_GLOO_FAILED, error,
                                  [&] { return wait_for(transfer) ? MTL_GLOO_DONE : MTL_GLOO_PENDING; });
  transfer->alarm->clear(buffer);
  return result;
}

// Tests whether a transfer is complete. A wait that has been interrupted returns immediately and consumes the
// interruption.
int probe(MtlGlooTransfer* transfer, char* error) {
  return guarded<int>(MTL_GLOO_FAILED, error, [&] {
    abort_wait(transfer->buffer.get(), transfer->is_send);
    wait_for(transfer);
    return MTL_GLOO_PENDING;
  });
}

void drop(MtlGlooTransfer* transfer) { delete transfer; }

// Detects how this version of Gloo connects pairs. The version of Gloo that began to connect pairs
// differently kept its version number (0.5.0), but added this header.
#if __has_include(<gloo/transport/tcp/listener.h>)
constexpr uint32_t kHandshake = 2;
#else
constexpr uint32_t kHandshake = 1;
#endif

const MtlGlooApi api = {MTL_GLOO_ABI_VERSION, kHandshake, open_context, close_context, address_for, connect_to,
                        hang_up,              start,      wait,         probe,         drop};

}  // namespace

extern "C" __attribute__((visibility("default"))) const MtlGlooApi* mtl_gloo_api(void) { return &api; }
