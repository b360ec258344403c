// Tests of failures of the nccl engine, with fake libraries. Timeouts are short; nothing depends on their
// length.
#include "tests/nccl/fake_world.h"

#ifdef MTL_NCCL_FAKES

#include <nccl.h>

namespace mtl::comm::nccl::tests {

using Kind = OperationKind;

namespace {

// Announces to the store that both members of a group start its first collective.
void expect_both(MemoryStore* store) {
  store->expect_key("stuck/collectives/0/0");
  store->expect_key("stuck/collectives/0/1");
}

// Connects two ranks; from then on their kernels hang.
class HangingPair {
 public:
  ~HangingPair() { fakes().set(kFakeKernelHangs, 0); }
  void connect(Group* group) {
    EXPECT(wait(group->start(barrier())).ok());
    if (++num_connected_ == 2) {
      fakes().set(kFakeKernelHangs, 1);
      all_connected_.open();
    }
    all_connected_.wait();
  }

 private:
  std::atomic<int> num_connected_{0};
  Gate all_connected_;
};

// Returns a request to send `values` from rank 0 to rank 1.
OperationRequest message_of(Rank* self, std::vector<float>* values) {
  return self->rank() == 0 ? request<float>(Kind::kSend, values, nullptr, 1)
                           : request<float>(Kind::kReceive, nullptr, values, 0);
}

}  // namespace

NCCL_TEST(a_rank_that_never_comes_is_named) {
  MemoryStore store;
  Rank self(0, &store);
  {
    const std::unique_ptr<Group> group = self.group("lonely", {0, 3}, 0.2);
    std::vector<float> value = {1};
    const Status status = wait(group->start(request(Kind::kAllReduce, &value, &value)));
    EXPECT_STATUS(failed_with(status, "MTL_TIMEOUT") && status.failure().rank == 3, status);
    EXPECT_STATUS(contains(status, "group lonely [0, 3], allReduce (collective 0), rank 0 waited "), status);
    EXPECT_STATUS(contains(status, "rank 3 did not come within 0.2 s"), status);
    EXPECT(self.job().is_aborted());
    const Status next = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(next, "MTL_TIMEOUT") && contains(next, "collective 1"), next);
  }
  EXPECT(fakes().count(kFakeCommunicators) == 0);
}

NCCL_TEST(a_rank_that_does_not_start_the_operation_is_named) {
  MemoryStore store;
  store.expect_key("stuck/collectives/1/0");
  store.expect_key("stuck/collectives/1/2");
  std::atomic<int> num_failed{0};
  Gate all_failed;
  run_ranks(3, [&](Rank* self) {
    const std::unique_ptr<Group> group = self->group("late", {0, 1, 2}, self->rank() == 1 ? 60 : 0.4);
    EXPECT(wait(group->start(barrier())).ok());
    if (self->rank() == 1) return all_failed.wait();
    std::vector<float> values(3), value(1);
    Group::Work work = group->start(request(Kind::kReduceScatter, &values, &value));
    EXPECT(work.wait().ok());  // it has been launched; the program continues
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_TIMEOUT"), status);
    EXPECT_STATUS(contains(status, ": rank 1 did not come within 0.4 s"), status);
    EXPECT(self->job().reason().failure().rank == 1);
    EXPECT(self->job().reason().failure().operation == "reduceScatter");
    EXPECT(self->job().reason().failure().sequence == "collective 1");
    if (++num_failed == 2) all_failed.open();
    self->synchronize();  // the compute stream continues, because NCCL was aborted
  }, &store);
}

NCCL_TEST(connecting_that_never_ends_is_a_time_out) {
  const Setting hangs(kFakeInitHangs, 1);
  MemoryStore store;
  expect_both(&store);
  const int aborts = fakes().count(kFakeAborts);
  run_ranks(2, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("connecting", {0, 1}, 0.4);
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_TIMEOUT"), status);
    EXPECT_STATUS(contains(status, "all members started it, but NCCL did not end it within 0.4 s"), status);
  }, &store);
  EXPECT(fakes().count(kFakeAborts) - aborts == 2);
}

NCCL_TEST(a_device_that_hangs_is_a_time_out_and_is_aborted) {
  const Setting hangs(kFakeKernelHangs, 1);
  MemoryStore store;
  expect_both(&store);
  const int aborts = fakes().count(kFakeAborts);
  run_ranks(2, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("hanging", {0, 1}, 0.4);
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_TIMEOUT") && status.failure().rank == -1, status);
    EXPECT_STATUS(contains(status, "barrier (collective 0)") && contains(status, "all members started it"), status);
  }, &store);
  EXPECT(fakes().count(kFakeAborts) - aborts == 2);
}

NCCL_TEST(two_sizes_are_a_mismatch_that_shows_both) {
  MemoryStore store;
  expect_both(&store);
  run_ranks(2, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("sizes", {0, 1}, 0.6);
    std::vector<float> values(self->rank() == 0 ? 3 : 5);
    EXPECT(wait(group->start(request(Kind::kAllReduce, &values, &values))).ok());
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_MISMATCH"), status);
    const Status reason = self->job().reason();
    const char* expected = self->rank() == 0
                               ? "rank 0 called allReduce sum float32 3, rank 1 allReduce sum float32 5"
                               : "rank 1 called allReduce sum float32 5, rank 0 allReduce sum float32 3";
    EXPECT_STATUS(contains(reason, expected), reason);
    self->synchronize();
  }, &store);
}

NCCL_TEST(messages_of_two_sizes_are_a_mismatch) {
  MemoryStore store;
  store.expect_key("stuck/0>1/0/0");
  store.expect_key("stuck/0>1/0/1");
  run_ranks(2, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("message", {0, 1}, 0.6);
    std::vector<float> values(self->rank() == 0 ? 3 : 5);
    Group::Work work = self->rank() == 0 ? group->start(request<float>(Kind::kSend, &values, nullptr, 1))
                                         : group->start(request<float>(Kind::kReceive, nullptr, &values, 0));
    EXPECT(work.wait().ok());
    Gate aborted;
    self->job().on_abort([&](const Failure&) { aborted.open(); });
    aborted.wait();
    const Status reason = self->job().reason();
    EXPECT_STATUS(failed_with(reason, "MTL_MISMATCH") && contains(reason, "(message 0)"), reason);
    EXPECT_STATUS(contains(reason, "message float32 3") && contains(reason, "message float32 5"), reason);
    self->synchronize();
  }, &store);
}

NCCL_TEST(an_abort_of_the_job_ends_every_wait_with_its_reason) {
  for (const MtlFakeSetting hang : {kFakeInitHangs, kFakeKernelHangs}) {
    const Setting hangs(hang, 1);
    run_ranks(2, [](Rank* self) {
      const std::unique_ptr<Group> group = self->group("aborted", {0, 1});
      Group::Work work = group->start(barrier());
      std::thread watchdog([&] {
        Failure failure;
        failure.code = "MTL_RANK_DIED";
        failure.rank = 7;
        failure.message = "rank 7 has died";
        self->job().abort(failure);
      });
      const Status status = work.wait();
      watchdog.join();
      EXPECT_STATUS(failed_with(status, "MTL_RANK_DIED") && status.failure().rank == 7, status);
      EXPECT_STATUS(contains(status, "group aborted [0, 1], barrier (collective 0)"), status);
      self->synchronize();
    });
  }
}

NCCL_TEST(all_communicators_are_aborted_together) {
  const int stuck = fakes().count(kFakeStuck), aborts = fakes().count(kFakeAborts);
  HangingPair pair;
  run_ranks(2, [&](Rank* self) {
    const std::unique_ptr<Group> first = self->group("first", {0, 1}), second = self->group("second", {0, 1});
    EXPECT(wait(first->start(barrier())).ok());
    pair.connect(second.get());
    std::vector<float> value = {1}, other = {1}, message = {1};
    Group::Work moving = first->start(message_of(self, &message));
    Group::Work of_first = first->start(request(Kind::kAllReduce, &value, &value));
    Group::Work of_second = second->start(request(Kind::kAllReduce, &other, &other));
    EXPECT(moving.wait().ok() && of_first.wait().ok() && of_second.wait().ok());  // they are on the device
    Failure failure;
    failure.code = "MTL_RANK_DIED";
    failure.message = "rank 7 has died";
    self->job().abort(failure);
    self->synchronize();
  });
  EXPECT(fakes().count(kFakeStuck) == stuck);
  EXPECT(fakes().count(kFakeAborts) == aborts + 6);
}

NCCL_TEST(closing_aborts_what_runs_before_it_destroys_what_is_idle) {
  const int stuck = fakes().count(kFakeStuck), launches = fakes().count(kFakeLaunches);
  HangingPair pair;
  run_ranks(2, [&](Rank* self) {
    std::vector<float> message = {1};
    std::unique_ptr<Group> group = self->group("closing", {0, 1});
    pair.connect(group.get());
    Group::Work moving = group->start(message_of(self, &message));
    while (fakes().count(kFakeLaunches) < launches + 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    group.reset();
  });
  EXPECT(fakes().count(kFakeStuck) == stuck);
}

NCCL_TEST(an_error_that_nccl_reports_reaches_the_program) {
  run_ranks(1, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("reported", {0});
    EXPECT(wait(group->start(barrier())).ok());
    const Setting hangs(kFakeKernelHangs, 1);
    const Setting broken(kFakeAsyncError, ncclInternalError);
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_NCCL") && status.failure().rank == 0, status);
    EXPECT_STATUS(contains(status, "NCCL: error of the fake: last words"), status);
    EXPECT_STATUS(contains(status, "barrier (collective 1)"), status);
  });
}

NCCL_TEST(the_watchdog_names_the_dead_peer_before_nccl_blames_the_network) {
  run_ranks(1, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("remote", {0});
    EXPECT(wait(group->start(barrier())).ok());
    const Setting broken(kFakeAsyncError, ncclRemoteError);
    const Setting hangs(kFakeKernelHangs, 1);
    Group::Work work = group->start(barrier());
    EXPECT(!work.is_done());  // the error has occurred and is not reported yet
    Failure failure;
    failure.code = "MTL_RANK_DIED";
    failure.rank = 1;
    failure.message = "rank 1 has died";
    self->job().abort(failure);
    const Status status = work.wait();
    EXPECT_STATUS(failed_with(status, "MTL_RANK_DIED") && status.failure().rank == 1, status);
  });
  run_ranks(1, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("nameless", {0}, 60, 0.001);
    EXPECT(wait(group->start(barrier())).ok());
    const Setting broken(kFakeAsyncError, ncclRemoteError);
    const Setting hangs(kFakeKernelHangs, 1);
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_NCCL") && status.failure().rank == -1, status);
  });
}

NCCL_TEST(an_argument_that_nccl_refuses_is_an_error_of_this_operation) {
  run_ranks(1, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("refused", {0});
    std::vector<float> value = {1};
    OperationRequest asked = request(Kind::kAllReduce, &value, &value);
    asked.dtype = DType::kUint8;  // the fake library does not sum this dtype
    const Status status = wait(group->start(asked));
    EXPECT_STATUS(failed_with(status, "MTL_NCCL") && status.failure().operation == "allReduce", status);
  });
}

NCCL_TEST(a_member_that_has_left_is_named) {
  Gate has_left;
  run_ranks(2, [&](Rank* self) {
    std::unique_ptr<Group> group = self->group("left", {0, 1}, 0.4);
    EXPECT(wait(group->start(barrier())).ok());
    if (self->rank() == 1) {
      group.reset();
      return has_left.open();
    }
    has_left.wait();
    const Status status = wait(group->start(barrier()));
    EXPECT_STATUS(failed_with(status, "MTL_RANK_LEFT") && status.failure().rank == 1, status);
  });
}

NCCL_TEST(closing_gives_up_what_is_under_way) {
  run_ranks(1, [](Rank* self) {
    std::vector<float> a = {1}, b = {1};
    std::unique_ptr<Group> group = self->group("closing", {0, 1});
    int num_released = 0;
    OperationRequest first = request(Kind::kAllReduce, &a, &a), second = request<float>(Kind::kReceive, nullptr, &b, 1);
    first.release = second.release = [&] { ++num_released; };
    group->start(first);
    group->start(second);
    group.reset();
    EXPECT(num_released == 2);
    self->synchronize();
    EXPECT(!self->job().is_aborted());
  });
}

NCCL_TEST(closing_while_nccl_holds_an_operation_stops_nccl_first) {
  const Setting holds(kFakeLaunchIsHeld, 1);
  run_ranks(1, [](Rank* self) {
    std::vector<float> value = {1};
    std::unique_ptr<Group> group = self->group("held", {0});
    const int aborts = fakes().count(kFakeAborts), held = fakes().count(kFakeHeld);
    OperationRequest asked = request(Kind::kAllReduce, &value, &value);
    asked.release = [&] { EXPECT(fakes().count(kFakeAborts) == aborts + 1); };
    group->start(asked);
    while (fakes().count(kFakeHeld) == held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    group.reset();
  });
}

NCCL_TEST(closing_lets_operations_end_that_the_program_counts_on) {
  Gate late;
  const int aborts = fakes().count(kFakeAborts);
  run_ranks(2, [&](Rank* self) {
    std::unique_ptr<Group> group = self->group("counted on", {0, 1});
    std::vector<float> value = {1};
    EXPECT(wait(group->start(barrier())).ok());
    if (self->rank() == 0) self->compute([&] { late.wait(); });
    EXPECT(wait(group->start(request(Kind::kAllReduce, &value, &value))).ok());
    std::thread opener([&] { if (self->rank() == 0) late.open(); });
    group.reset();
    opener.join();
    self->synchronize();
    EXPECT(value[0] == 2);
  });
  EXPECT(fakes().count(kFakeAborts) == aborts);
}

}  // namespace mtl::comm::nccl::tests

#endif
