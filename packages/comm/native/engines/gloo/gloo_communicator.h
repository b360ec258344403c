// The engine across hosts, for groups with one rank per host (and, on request, for other groups). Every
// collective begins with a comparison of the members' descriptions; every message is preceded by its
// description.
#pragma once

#include "engines/gloo/gloo_collectives.h"
#include "group/communicator.h"

namespace mtl::comm::gloo {

class GlooCommunicator : public Communicator {
 public:
  // `mesh` must be connected to all members.
  explicit GlooCommunicator(std::unique_ptr<GlooMesh> mesh);

  const char* engine() const override { return "gloo"; }
  Status execute(Operation* operation, Call* call) override;
  void leave() override { mesh_->leave(); }

 private:
  const std::unique_ptr<GlooMesh> mesh_;
  GlooCollectives collectives_;
};

// Executes a message to or from `operation.peer`. The receiver compares descriptions before it accepts the
// data, and the sender waits until the receiver has requested the data.
Status run_message(GlooMesh* mesh, const Operation& operation, Call* call);
// Executes a collective on which its members have agreed.
Status run_collective(GlooCollectives* collectives, const Operation& operation, Call* call);

}  // namespace mtl::comm::gloo
