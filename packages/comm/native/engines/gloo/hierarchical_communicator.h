// Groups that span hosts with several ranks each: shared memory inside a host, Gloo between hosts.
//
// When every host has as many members, ranks of the same place on their hosts are peers. A reduction is
// scattered within the host, combined among peers and gathered within the host, so that every byte crosses
// the network once and all ranks of a host send at the same time. Otherwise one rank of each host, its
// leader, communicates for the others (all-reduce, broadcast, barrier), and the operations that move
// different bytes for each member run directly between all members.
//
// Order of summation: over the members of a host by rank, then over hosts by the rank of their first member;
// 16-bit floats travel as float32 between the two and are rounded once. Where members do not combine before
// the network (reduce-scatter of hosts with unequal numbers), plainly by rank. The bits never depend on
// timing and are the same on all members.
#pragma once

#include "engines/gloo/gloo_communicator.h"
#include "engines/local/local_communicator.h"

namespace mtl::comm::gloo {

// Where the members of a group are.
struct Topology {
  // `host_of`: of each member, any numbers.
  Topology(const std::vector<int>& host_of, int member);

  std::vector<std::vector<int>> hosts;  // positions in the group, ascending; hosts by their first member
  int own_host = 0;
  int own_place = 0;  // on the host
  bool is_even = true;

  int num_hosts() const { return static_cast<int>(hosts.size()); }
  const std::vector<int>& own_members() const { return hosts[static_cast<size_t>(own_host)]; }
  // Members with which this one runs collectives over the network, itself included; empty for followers of a
  // leader.
  std::vector<int> peers() const;
};

class HierarchicalCommunicator : public Communicator {
 public:
  // `mesh` is connected to topology.peers(); `local`: the members of this host, null where it is one.
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
  };

  // The stages of a collective. A member that waits within the host sees which member is missing, and whether
  // that member waits for another host itself, so it times out first. A member that waits for another host
  // waits a little longer, since its peer may be waiting within that host; one that waits for a member that
  // waits for another host, longer still. So the missing rank is reported by the ranks that wait for it, not
  // by those that wait for them.
  Status in_host(const LocalStep& step, Call* call);
  Status between_hosts(Call* call, const std::function<Status(Call*)>& body);
  Status agree(Call* call);
  bool is_direct(OperationKind kind) const;
  Status message(Operation* operation, Call* call, Begun* begun);
  char* scratch(int index, size_t bytes);
  int64_t patience_ns() const;
  // Calls body(member, host, place) for all members.
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

  const Topology topology_;
  const std::unique_ptr<GlooMesh> mesh_;
  const std::unique_ptr<local::LocalCommunicator> local_;
  GlooCollectives peers_, everybody_;
  // of this host's members and of all, with the time-out of the first stage
  GroupIdentity host_, group_;
  uint64_t num_local_steps_ = 0;
  std::vector<char> scratch_[2];
};

}  // namespace mtl::comm::gloo
