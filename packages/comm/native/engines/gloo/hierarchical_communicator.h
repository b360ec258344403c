// Groups that span several hosts with several ranks each: shared memory within a host, Gloo across hosts.
//
// If every host has the same number of members, the ranks with the same position on their hosts are called
// peers. A reduction consists of a reduce-scatter within the host, a reduction among peers, and an all-gather
// within the host. Every byte thus crosses the network once, and all ranks of a host send at the same time.
// If the numbers differ, one rank of each host (its leader) communicates for the other ranks in all-reduce,
// broadcast and barrier, and operations with different data for each member run directly between all members.
//
// Order of summation: first over the members of a host by rank, then over hosts in the order of their first
// member. Between these stages, 16-bit floats are sent as float32, so they are rounded once. A reduce-scatter
// across hosts with unequal numbers of members reduces nothing before the network transfer, and sums by rank.
// The bits never depend on timing and are the same on all members.
#pragma once

#include "engines/gloo/gloo_communicator.h"
#include "engines/local/local_communicator.h"

namespace mtl::comm::gloo {

// How the members of a group are distributed over hosts.
struct Topology {
  // `host_of`: the host of each member; hosts are identified by arbitrary numbers.
  Topology(const std::vector<int>& host_of, int member);

  std::vector<std::vector<int>> hosts;  // positions in the group, ascending; hosts are ordered by their first member
  int own_host = 0;
  int own_place = 0;  // the position of this member among the members of its host
  bool is_even = true;

  int num_hosts() const { return static_cast<int>(hosts.size()); }
  const std::vector<int>& own_members() const { return hosts[static_cast<size_t>(own_host)]; }
  // The members with which this member runs collectives over the network, including itself; empty for a
  // member whose host has a different leader.
  std::vector<int> peers() const;
};

class HierarchicalCommunicator : public Communicator {
 public:
  // `mesh` must be connected to topology.peers(). `local` connects the members of this host; null if no other
  // member is on this host.
  HierarchicalCommunicator(Topology topology, std::unique_ptr<GlooMesh> mesh,
                           std::unique_ptr<local::LocalCommunicator> local);

  const char* engine() const override { return "gloo+local"; }
  Begun begin(Operation* operation, Call* call) override;
  Status execute(Operation* operation, Call* call) override;
  void leave() override;

 private:
  // An operation among the members of this host.
  struct LocalStep {
    OperationKind kind;
    const void* input;
    void* output;
    uint64_t input_count;   // elements
    uint64_t output_count;
    DType dtype = DType::kUint8;
    Reduction reduction = Reduction::kSum;
    int root = -1;
    std::shared_ptr<const Parts> parts = nullptr;
  };

  // These functions run the stages of a collective. Their timeouts differ, so that the ranks that wait
  // directly for a missing rank report it first:
  // * A member that waits within its host has the shortest timeout. It sees which member is missing, and
  //   whether the missing member is itself waiting for another host.
  // * A member that waits for another host has a longer timeout, since its peer may be waiting for a member
  //   of that host.
  // * A member that waits for a member of its own host, which itself waits for another host, has the longest
  //   timeout.
  Status in_host(const LocalStep& step, Call* call);
  Status between_hosts(Call* call, const std::function<Status(Call*)>& body);
  Status agree(Call* call);
  bool is_direct(OperationKind kind) const;
  Status message(Operation* operation, Call* call, Begun* begun);
  char* scratch(int index, size_t bytes);
  int64_t patience_ns() const;
  // Calls body(member, host, position) for all members.
  template <typename Body>
  void for_each_member(const Body& body) const {
    for (size_t host = 0; host < topology_.hosts.size(); ++host) {
      const std::vector<int>& members = topology_.hosts[host];
      for (size_t place = 0; place < members.size(); ++place) body(static_cast<size_t>(members[place]), host, place);
    }
  }

  Status all_reduce(const Operation& operation, Call* call);
  Status all_reduce_chunk(char* data, const Values& values, Call* call);
  Status all_reduce_by_leaders(char* data, const Values& values, Call* call);
  Status reduce_scatter(const Operation& operation, Call* call);
  Status all_gather(const Operation& operation, Call* call);
  Status broadcast(const Operation& operation, Call* call);
  Status all_to_all(const Operation& operation, Call* call);
  // Gathers the part sizes of an all-to-all with unequal parts, in elements, as a row-major matrix [sender,
  // receiver].
  Status lengths_of_parts(const Operation& operation, std::vector<uint64_t>* lengths, Call* call);

  const Topology topology_;
  const std::unique_ptr<GlooMesh> mesh_;
  const std::unique_ptr<local::LocalCommunicator> local_;
  GlooCollectives peers_, everybody_;
  // `host_` has the members on this host, `group_` has all members; both have the timeout for waits within
  // the host
  GroupIdentity host_, group_;
  uint64_t num_local_steps_ = 0;
  std::vector<char> scratch_[2];
};

}  // namespace mtl::comm::gloo
