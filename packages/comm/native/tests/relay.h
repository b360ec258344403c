// A man in the middle between a rank and its store, which reads every frame and may change it.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "store/sockets.h"
#include "tests/native_test.h"

namespace mtl::comm::store {

enum class Towards { kStore, kRank };

// The bytes that are sent in place of a frame.
struct Passed {
  std::string on;    // to the frame's receiver
  std::string back;  // to the frame's sender
};

class Relay {
 public:
  // `number` counts the frames of a direction from 0, including the join, the hello and the welcome.
  using Change = std::function<Passed(Towards towards, int number, const std::string& frame)>;

  Relay(int store_port, Change change) : change_(std::move(change)) {
    EXPECT(tests::succeeded(listen_on("127.0.0.1", {0}, &listener_, &port_)));
    EXPECT(tests::succeeded(connect_to("127.0.0.1", store_port, 20000 * kMillisecond, &ends_[0].socket)));
    thread_ = std::thread(&Relay::run, this);
  }
  ~Relay() {
    is_stopping_.store(true);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  struct End {
    Descriptor socket;
    std::string received;  // an incomplete frame
    std::string unsent;
    int num_frames = 0;
    bool is_over = false;  // end of stream
  };

  // Splits the bytes of one side into frames.
  void take(End* from, End* to, Towards towards) {
    char bytes[65536];
    long count;
    while ((count = receive_some(from->socket.get(), bytes, sizeof(bytes))) > 0) {
      from->received.append(bytes, static_cast<size_t>(count));
    }
    from->is_over = count < 0;
    for (;;) {
      size_t length = 4;
      for (int byte = 0; byte < 4 && from->received.size() >= 4; ++byte) {
        length += size_t{static_cast<uint8_t>(from->received[static_cast<size_t>(byte)])} << (8 * byte);
      }
      if (from->received.size() < 4 || from->received.size() < length) return;
      const Passed passed = change_(towards, from->num_frames++, from->received.substr(0, length));
      from->received.erase(0, length);
      to->unsent += passed.on;
      from->unsent += passed.back;
    }
  }

  static void flush(End* end) {
    while (!end->unsent.empty()) {
      const long sent = send_some(end->socket.get(), end->unsent.data(), end->unsent.size());
      if (sent < 0) end->unsent.clear();
      if (sent <= 0) return;
      end->unsent.erase(0, static_cast<size_t>(sent));
    }
  }

  void run() {
    std::string peer;
    while (!is_stopping_.load() && !(ends_[1].socket = accept_from(listener_.get(), &peer)).is_open()) usleep(1000);
    End &store = ends_[0], &rank = ends_[1];
    while (!is_stopping_.load()) {
      pollfd events[2];
      for (int index = 0; index < 2; ++index) {
        End& end = ends_[index];
        // poll() ignores a negative descriptor
        events[index] = {end.is_over ? -1 : end.socket.get(), static_cast<short>(POLLIN | (end.unsent.empty() ? 0 : POLLOUT)), 0};
      }
      poll(events, 2, 5);
      if (!store.is_over) take(&store, &rank, Towards::kRank);
      if (!rank.is_over) take(&rank, &store, Towards::kStore);
      flush(&store);
      flush(&rank);
      // if one end has closed, the other end is closed after all earlier data was sent
      if ((store.is_over && rank.unsent.empty()) || (rank.is_over && store.unsent.empty())) break;
    }
    store.socket.reset();
    rank.socket.reset();
  }

  const Change change_;
  Descriptor listener_;
  int port_ = 0;
  End ends_[2];  // the store's, the rank's
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace mtl::comm::store
