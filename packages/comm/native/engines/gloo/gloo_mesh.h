// Connections between the members of a group through libgloo, and the detection of failures. This class
// transfers bytes; gloo_collectives.h and the communicators define their meaning.
//
// Failures are reported on the same connections: a member that aborts or leaves sends a notice to every
// connected member, and a connection that ends without a notice means that the member died. Every wait checks
// the notices of all connections. All surviving members therefore name the rank that failed, instead of a
// neighbour that reported the failure.
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

// Identifies a stream of transfers. Within a channel, the transfers between two members are matched in the
// order in which they were started.
enum class Channel : uint64_t { kNotice = kNoticeChannel, kAgreement, kData, kMessageDescription, kMessage };

struct Transfer {
  int member = 0;  // position in the group
  Channel channel = Channel::kData;
  bool is_send = false;
  void* data = nullptr;  // a send only reads it
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

  // Opens a listening socket for every other member. `job` must outlive the mesh.
  static Status create(GroupIdentity group, JobState* job, const Options& options, std::unique_ptr<GlooMesh>* mesh);
  ~GlooMesh();

  const GroupIdentity& group() const { return group_; }
  // The addresses at which the other members can connect to this member, as bytes for a store.
  const std::string& addresses() const { return own_addresses_; }
  // Connects to `members`, who must all call this function when the group is created. `addresses` has the
  // `addresses()` of all members, by position. Other members are connected at their first transfer.
  Status connect(std::vector<std::string> addresses, const std::vector<int>& members);

  // Starts transfers; connects first if necessary. Counts bytes sent on the data channels.
  Status start(const std::vector<Transfer>& transfers, Call* call, PendingTransfers* pending);
  // Waits until all transfers are complete.
  Status finish(PendingTransfers* pending, Call* call);
  Status run(const std::vector<Transfer>& transfers, Call* call);

  // Exchanges the descriptions of a collective with `members` and compares them. Success means that all
  // members have started the same operation.
  Status agree(const std::vector<int>& members, Call* call);

  // Tells the other members that this member will not start any more operations.
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
  // Stores another member's notice, or the error that the member has died, in the job's abort state.
  void look_at_notices();
  Status lost(int member, const char* error, Call* call);

  const GroupIdentity group_;
  JobState* const job_;
  const MtlGlooApi* const api_;
  MtlGlooContext* const context_;
  std::string own_addresses_;
  std::shared_ptr<Notices> notices_;  // shared, because listeners of the job's abort may outlive the mesh
  std::vector<std::unique_ptr<Peer>> peers_;
  bool has_left_ = false;
};

}  // namespace mtl::comm::gloo
