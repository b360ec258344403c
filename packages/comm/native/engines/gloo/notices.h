// The control messages between members of a mesh. They report that a member leaves cleanly, or why the job
// ends.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/gloo/gloo_library.h"
#include "core/job_state.h"

namespace mtl::comm::gloo {

constexpr uint64_t kNoticeChannel = 0;

// A notice, in the format in which it is sent to other members.
struct Notice {
  enum Kind : int32_t { kNone = 0, kLeft = 1, kAborted = 2 };
  int32_t kind = kNone;
  int32_t rank = -1;  // the rank that caused the failure
  char code[56] = {};
  char message[1976] = {};
  uint64_t has_come = 0;  // the last word: 1 once the whole notice has arrived
};

enum class Fate { kHere, kLeft, kAborted, kGone };

// The notices of one mesh. Used by all threads that wait for transfers of the mesh, and by the thread that
// aborts the job, which may run after the mesh has been destroyed.
class Notices {
 public:
  Notices(const MtlGlooApi* api, MtlGlooContext* context, int size);

  // Begins to receive from a member that has just been connected.
  Status listen_to(int member);
  // Sends the notice to all connected members, and waits briefly until it has been sent.
  void send(const Notice& notice);
  // Returns the state of a member. If the member's notice contains the reason why the job ends, copies it to
  // `reason`.
  Fate look(int member, Failure* reason, std::string* error);
  // Stops using the connections; later calls do nothing.
  void close();

 private:
  struct Peer {
    Notice incoming;
    MtlGlooTransfer* receive = nullptr;
    Fate fate = Fate::kHere;
    std::string error;
  };

  std::mutex mutex_;
  const MtlGlooApi* const api_;
  MtlGlooContext* context_;  // null: closed
  std::vector<Peer> peers_;
};

}  // namespace mtl::comm::gloo
