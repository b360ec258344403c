// A thread that detects failures even while the main thread is busy with computation: the death of a process
// of this host, an abort that another rank wrote to the board, and a main thread that does not end after an
// abort.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "engines/local/host_board.h"

namespace mtl::comm::local {

class Watchdog {
 public:
  // Starts the watchdog. All ranks of the board must have joined. `grace_ns`: how long the process may
  // continue after an abort. Afterwards the watchdog prints the reason and ends the process with status 1. If
  // the watchdog is destroyed before that, the process is not ended.
  static Status start(JobState* job, HostBoard* board, int64_t grace_ns, std::unique_ptr<Watchdog>* watchdog);
  ~Watchdog();

 private:
  struct Peer {
    int index;
    int pid;
    int end;  // a descriptor that becomes readable when the process ends
  };
  Watchdog(JobState* job, HostBoard* board, int64_t grace_ns) : job_(job), board_(board), grace_ns_(grace_ns) {}
  void watch();
  void look_after(size_t position);
  void report_death(const Peer& peer);

  JobState* const job_;
  HostBoard* const board_;
  const int64_t grace_ns_;
  int wake_event_ = -1;
  std::vector<Peer> peers_;
  std::thread thread_;
};

}  // namespace mtl::comm::local
