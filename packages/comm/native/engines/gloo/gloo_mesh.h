// Connections between the members of a group through libgloo, and their failures. Transfers bytes between
// members; gloo_collectives.h and the communicators interpret them.
//
// Failures are sent on the connections themselves: a member that aborts or leaves sends a notice to every
// member that it is connected to; a connection that ends without one means that the member died. Every wait
// checks the notices of all connections, so that all survivors name the rank that failed and not the
// neighbour that reported it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/gloo/gloo_library.h"
#include "engines/gloo/notices.h"
#include "group/call.h"

namespace mtl::comm::gloo {

// Transfers of one channel between two members match in the order in which they were started.
enum class Channel : uint64_t { kNotice = kNoticeChannel, kAgreement, kData, kMessageDescription, kMessage };

struct Transfer {
  int member = 0;  // position in the group
  Channel channel = Channel::kData;
  bool is_send = false;
  void* data = nullptr;  // only read for a send
  size_t bytes = 0;      // 0: nothing is transferred, on either side
};

// Transfers in progress. Their memory must stay valid until this object is destroyed.
class PendingTransfers {
 public:
  PendingTransfers() = default;
  PendingTransfers(PendingTransfers&&) = default;
  PendingTransfers& operator=(PendingTransfers&&) = default;

 private:
  friend class GlooMesh;
  struct Drop {
    const MtlGlooApi* api;
    void operator()(MtlGlooTransfer* transfer) const { api->drop(transfer); }
  };
  struct Started {
    int member;
    std::unique_ptr<MtlGlooTransfer, Drop> transfer;
  };
  std::vector<Started> started_;
};

class GlooMesh {
 public:
  struct Options {
    std::string library;  // empty: next to the addon
    std::string address;  // an IP address of this machine
  };

  // Listens for every other member. `job` outlives the mesh.
  static Status create(GroupIdentity group, JobState* job, const Options& options, std::unique_ptr<GlooMesh>* mesh);
  ~GlooMesh();

  const GroupIdentity& group() const { return group_; }
  // The addresses at which the other members reach this one, as bytes for a store.
  const std::string& addresses() const { return own_addresses_; }
  // Connects to `members`; each of these calls this function when the group is created. `addresses`: the
  // `addresses()` of all members, by position. The first transfer with another member connects to it.
  Status connect(std::vector<std::string> addresses, const std::vector<int>& members);

  // Starts transfers; connects first if necessary. Counts bytes sent on the data channels.
  Status start(const std::vector<Transfer>& transfers, Call* call, PendingTransfers* pending);
  // Waits until all transfers are complete.
  Status finish(PendingTransfers* pending, Call* call);
  Status run(const std::vector<Transfer>& transfers, Call* call);

  // Exchanges the descriptions of a collective with `members` and compares them: on success, all members have
  // started the same operation.
  Status agree(const std::vector<int>& members, Call* call);

  // Tells the other members that this one will not start any more operations.
  void leave();

 private:
  struct Peer;
  struct Limits;

  GlooMesh(GroupIdentity group, JobState* job, const MtlGlooApi* api, MtlGlooContext* context);
  Status listen();
  Status read_addresses(const std::vector<std::string>& addresses);
  Status connect_all(const std::vector<int>& members, const Limits& limits);
  Status connect_for(int member, Call* call);
  bool adopt(int member, std::string* error);
  bool await_description(int member, std::string* error);
  Status begin(const Transfer& transfer, Call* call, PendingTransfers* pending);
  // Copies another member's notice, or the failure that it died, into the job's abort state.
  void look_at_notices();
  Status lost(int member, const char* error, Call* call);

  const GroupIdentity group_;
  JobState* const job_;
  const MtlGlooApi* const api_;
  MtlGlooContext* const context_;
  std::string own_addresses_;
  std::shared_ptr<Notices> notices_;  // listeners of the job's abort may outlive the mesh
  std::vector<std::unique_ptr<Peer>> peers_;
  bool has_left_ = false;
};

}  // namespace mtl::comm::gloo
