// Tests of results, order and overlap, with fake libraries.
#include "tests/nccl/fake_world.h"

#ifdef MTL_NCCL_FAKES

namespace mtl::comm::nccl::tests {

using Kind = OperationKind;

NCCL_TEST(libraries_are_described) {
  const std::string text = describe(*fakes().libraries);
  EXPECT(text.find("NCCL 2.30.7 at " MTL_NCCL_FAKES) == 0);
  EXPECT(text.find("driver at " MTL_NCCL_FAKES) != std::string::npos);
}

NCCL_TEST(an_old_library_is_refused_with_its_version) {
  fakes();
  const Setting old(kFakeVersion, 22605, 23007);
  std::shared_ptr<const NcclLibraries> libraries;
  const Status status = open_nccl_libraries(&libraries);
  EXPECT_STATUS(failed_with(status, "MTL_NCCL_VERSION"), status);
  EXPECT_STATUS(contains(status, "is NCCL 2.26.5, at least 2.27.3 is needed") && contains(status, "remedy"), status);
}

NCCL_TEST(a_device_that_is_not_there_is_an_error) {
  JobState job(0);
  GroupIdentity identity;
  identity.ranks = {0};
  NcclOptions options;
  options.device = 99;
  std::unique_ptr<Communicator> communicator;
  const Status status = connect_nccl(fakes().libraries, identity, options, &job, &communicator);
  EXPECT_STATUS(failed_with(status, "MTL_CUDA") && contains(status, "CUDA_ERROR_INVALID_DEVICE"), status);
  EXPECT(fakes().live_objects() == 0);
}

NCCL_TEST(all_operations_of_three_ranks) {
  run_ranks(3, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("three", {0, 1, 2});
    const float mine = static_cast<float>(self->rank());
    std::vector<float> reduced = {mine, 10 * mine}, largest = {mine, -mine};
    std::vector<float> part = {mine, mine + 0.5f}, whole(6), six = {mine, 1, 2, 3, 4, 5}, slice(2);
    std::vector<float> exchange_in = {10 * mine, 10 * mine + 1, 10 * mine + 2}, exchange_out(3);
    std::vector<int> sent = {self->rank()};
    EXPECT(wait(group->start(request(Kind::kAllReduce, &reduced, &reduced))).ok());
    EXPECT(wait(group->start(request(Kind::kAllReduce, &largest, &largest, -1, Reduction::kMaximum))).ok());
    EXPECT(wait(group->start(request(Kind::kAllGather, &part, &whole))).ok());
    EXPECT(wait(group->start(request(Kind::kReduceScatter, &six, &slice))).ok());
    EXPECT(wait(group->start(request(Kind::kBroadcast, &sent, &sent, 2))).ok());
    EXPECT(wait(group->start(request(Kind::kAllToAll, &exchange_in, &exchange_out))).ok());
    // rank 0 sends no element to itself, one to rank 1 and two to rank 2; rank 1 sends one, two and none;
    // rank 2 sends two, none and one
    const uint64_t lengths[3][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}};
    const size_t own = static_cast<size_t>(self->rank());
    std::vector<float> unequal_in = {10 * mine, 10 * mine + 1, 10 * mine + 2}, unequal_out(3);
    OperationRequest unequal = request(Kind::kAllToAll, &unequal_in, &unequal_out);
    unequal.parts = std::make_shared<const Parts>(Parts::of({lengths[own][0], lengths[own][1], lengths[own][2]},
                                                            {lengths[0][own], lengths[1][own], lengths[2][own]}));
    EXPECT(wait(group->start(std::move(unequal))).ok());
    EXPECT(wait(group->start(barrier())).ok());
    self->synchronize();
    const std::vector<std::vector<float>> exchanged = {{10, 20, 21}, {0, 11, 12}, {1, 2, 22}};
    EXPECT(unequal_out == exchanged[own]);
    EXPECT((reduced == std::vector<float>{3, 30}));
    EXPECT((largest == std::vector<float>{2, 0}));
    EXPECT((whole == std::vector<float>{0, 0.5f, 1, 1.5f, 2, 2.5f}));
    const std::vector<std::vector<float>> slices = {{3, 3}, {6, 9}, {12, 15}};
    EXPECT(slice == slices[static_cast<size_t>(self->rank())]);
    EXPECT((sent == std::vector<int>{2}));
    EXPECT((exchange_out == std::vector<float>{mine, mine + 10, mine + 20}));
    EXPECT(group->count_of(Kind::kAllReduce).sent_bytes == 2 * (2 * 8 * 2 / 3));
    EXPECT(group->count_of(Kind::kAllGather).sent_bytes == 2 * 8);
    EXPECT(group->count_of(Kind::kReduceScatter).sent_bytes == 24 * 2 / 3);
    EXPECT(group->count_of(Kind::kBroadcast).sent_bytes == (self->rank() == 1 ? 0 : 4));
    EXPECT(group->count_of(Kind::kAllToAll).sent_bytes == 8 + 4 * (3 - lengths[own][own]));
  });
}

NCCL_TEST(the_device_orders_compute_and_communication) {
  const int before = fakes().count(kFakeLaunches);
  Gate launched;
  std::atomic<int> num_started{0};
  run_ranks(2, [&](Rank* self) {
    const std::unique_ptr<Group> group = self->group("order", {0, 1});
    EXPECT(wait(group->start(barrier())).ok());
    std::vector<float> value = {-100}, seen = {0};
    self->compute([&] {
      launched.wait();  // the program has continued, long before the input is ready
      value[0] = static_cast<float>(self->rank() + 1);
    });
    Group::Work work = group->start(request(Kind::kAllReduce, &value, &value));
    EXPECT(!work.is_done());
    EXPECT(work.wait().ok());  // must not wait for the device: that wait would never end
    self->compute([&] { seen[0] = value[0]; });
    if (++num_started == 2) launched.open();
    self->synchronize();
    EXPECT(seen[0] == 3);
  });
  EXPECT(fakes().count(kFakeLaunches) - before == 4);
}

NCCL_TEST(a_barrier_waits_on_the_host) {
  std::atomic<bool> has_second_come{false};
  run_ranks(2, [&](Rank* self) {
    const std::unique_ptr<Group> group = self->group("barrier", {0, 1});
    EXPECT(wait(group->start(barrier())).ok());
    if (self->rank() == 1) has_second_come = true;
    EXPECT(wait(group->start(barrier())).ok());
    EXPECT(has_second_come);
  });
}

NCCL_TEST(operations_queue_up_while_nccl_is_still_connecting) {
  Setting holds(kFakeLaunchIsHeld, 1);
  std::atomic<int> num_ready{0};
  run_ranks(2, [&](Rank* self) {
    const std::unique_ptr<Group> group = self->group("slow", {0, 1});
    std::vector<std::vector<float>> values(8);
    std::vector<Group::Work> works;
    for (size_t index = 0; index < values.size(); ++index) {
      values[index] = {static_cast<float>(index)};
      works.push_back(group->start(request(Kind::kAllReduce, &values[index], &values[index])));
    }
    if (++num_ready == 2) fakes().set(kFakeLaunchIsHeld, 0);
    for (size_t index = values.size(); index-- > 0;) EXPECT(works[index].wait().ok());
    self->synchronize();
    for (size_t index = 0; index < values.size(); ++index) EXPECT(values[index][0] == 2 * static_cast<float>(index));
  });
}

NCCL_TEST(memory_is_kept_while_the_device_waits_for_others) {
  Gate has_seen;
  run_ranks(2, [&](Rank* self) {
    const std::unique_ptr<Group> group = self->group("keeping", {0, 1});
    std::vector<float> value = {1}, other = {1};
    EXPECT(wait(group->start(barrier())).ok());
    if (self->rank() == 1) has_seen.wait();
    EXPECT(self->num_keeping_memory() == 0);
    Group::Work first = group->start(request(Kind::kAllReduce, &value, &value));
    Group::Work second = group->start(request(Kind::kAllReduce, &other, &other));
    if (self->rank() == 0) {
      EXPECT(self->num_keeping_memory() == 2);
      EXPECT(first.wait().ok());  // the compute stream waits
      EXPECT(self->num_keeping_memory() == 1);
      has_seen.open();
    }
    self->synchronize();
    EXPECT(wait(group->start(barrier())).ok());
    EXPECT(second.wait().ok() && self->num_keeping_memory() == 0);
  });
}

// NCCL returns "in progress" for each operation, and launches it a moment later.
NCCL_TEST(a_connected_group_launches_at_the_start_of_an_operation) {
  const Setting polls(kFakeLaunchPolls, 20);
  run_ranks(1, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("prompt", {0});
    std::vector<float> value = {1};
    EXPECT(wait(group->start(barrier())).ok());
    const int before = fakes().count(kFakeLaunches);
    for (int index = 1; index <= 200; ++index) {
      Group::Work work = group->start(request(Kind::kAllReduce, &value, &value));
      EXPECT(fakes().count(kFakeLaunches) == before + index);
      EXPECT(work.wait().ok());
    }
    self->synchronize();
  });
}

NCCL_TEST(messages_match_in_order_and_an_early_receive_holds_nothing_up) {
  run_ranks(2, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("pair", {0, 1});
    const int other = 1 - self->rank();
    std::vector<float> first(1), second(1), sum = {1};
    // received last: no other operation must wait for it
    Group::Work late = group->start(request<float>(Kind::kReceive, nullptr, &first, other));
    Group::Work later = group->start(request<float>(Kind::kReceive, nullptr, &second, other));
    EXPECT(wait(group->start(request(Kind::kAllReduce, &sum, &sum))).ok());
    EXPECT(wait(group->start(barrier())).ok());
    std::vector<float> one(1), two(1);
    self->compute([&] { one[0] = sum[0] + static_cast<float>(self->rank()); });
    self->compute([&] { two[0] = one[0] * 10; });
    Group::Work sending = group->start(request<float>(Kind::kSend, &one, nullptr, other));
    Group::Work sending_more = group->start(request<float>(Kind::kSend, &two, nullptr, other));
    EXPECT(sending_more.wait().ok() && sending.wait().ok() && late.wait().ok() && later.wait().ok());
    self->synchronize();
    EXPECT(first[0] == 2 + static_cast<float>(other));
    EXPECT(second[0] == 10 * first[0]);
  });
}

NCCL_TEST(collectives_of_all_groups_are_launched_in_the_order_of_the_program) {
  Gate started, created;
  run_ranks(2, [&](Rank* self) {
    std::vector<float> a = {1}, b = {1};
    const bool is_first = self->rank() == 0;
    const std::unique_ptr<Group> early = self->group("early", {0, 1});
    EXPECT(wait(early->start(barrier())).ok());  // the group is connected, so the barrier could be launched immediately
    std::unique_ptr<Group> late;
    if (is_first) {
      late = self->group("late", {0, 1});  // the other member has not arrived yet
      const int before = fakes().count(kFakeLaunches);
      Group::Work of_late = late->start(request(Kind::kAllReduce, &a, &a));
      Group::Work of_early = early->start(request(Kind::kAllReduce, &b, &b));
      EXPECT(fakes().count(kFakeLaunches) == before);
      started.open();
      EXPECT(of_early.wait().ok() && of_late.wait().ok());
    } else {
      started.wait();
      late = self->group("late", {0, 1});
      Group::Work of_late = late->start(request(Kind::kAllReduce, &a, &a));
      Group::Work of_early = early->start(request(Kind::kAllReduce, &b, &b));
      EXPECT(of_early.wait().ok() && of_late.wait().ok());
    }
    self->synchronize();
    EXPECT(a[0] == 2 && b[0] == 2);
  });
}

NCCL_TEST(what_goes_well_is_destroyed_in_order_and_leaves_no_description) {
  MemoryStore store;
  const int destroyed = fakes().count(kFakeDestroys), aborted = fakes().count(kFakeAborts);
  run_ranks(2, [](Rank* self) {
    const std::unique_ptr<Group> group = self->group("orderly", {0, 1});
    std::vector<float> value = {1};
    EXPECT(wait(group->start(request(Kind::kAllReduce, &value, &value))).ok());
    self->synchronize();
  }, &store);
  EXPECT(fakes().count(kFakeDestroys) - destroyed == 2);
  EXPECT(fakes().count(kFakeAborts) == aborted);
  EXPECT(store.num_keys("stuck/") == 0 && store.num_keys("left/") == 2);
}

}  // namespace mtl::comm::nccl::tests

#endif
