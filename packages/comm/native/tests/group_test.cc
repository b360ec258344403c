// Groups of threads over shared memory: results, order, failures and closing a group during its operations.
#include <array>
#include <atomic>

#include "core/clock.h"
#include "tests/native_test.h"

namespace mtl::comm::tests {
namespace {

OperationRequest request_of(OperationKind kind, std::vector<float>* input, std::vector<float>* output, int peer = -1) {
  OperationRequest request;
  request.kind = kind;
  request.peer = peer;
  if (input != nullptr) {
    request.input = input->data();
    request.input_bytes = input->size() * sizeof(float);
  }
  if (output != nullptr) {
    request.output = output->data();
    request.output_bytes = output->size() * sizeof(float);
  }
  return request;
}

Status reduce(Group& group, std::vector<float>* values) {
  return group.start(request_of(OperationKind::kAllReduce, values, values)).wait();
}

std::vector<float> numbers(size_t count, int member) {
  std::vector<float> values(count);
  for (size_t index = 0; index < count; ++index) values[index] = static_cast<float>(index % 97 + 100 * static_cast<size_t>(member));
  return values;
}

MTL_TEST(a_trace_keeps_the_latest_and_counts_what_it_drops) {
  Trace trace(4);
  TraceEntry entry;
  for (entry.sequence = 0; entry.sequence < 7; ++entry.sequence) trace.add(entry);
  uint64_t num_dropped = 0;
  const std::vector<TraceEntry> taken = trace.take(&num_dropped);
  EXPECT(taken.size() == 4 && taken.front().sequence == 3 && taken.back().sequence == 6);
  EXPECT(num_dropped == 3);
  // dropped entries are counted from 0 again after each call of take()
  trace.add(entry);
  EXPECT(trace.take(&num_dropped).size() == 1);
  EXPECT(num_dropped == 0);
}

// Returns the number of elements that member `from` sends to member `to`: for some pairs 0, for some several
// chunks.
uint64_t length_between(int from, int to) { return static_cast<uint64_t>((7 * from + 3 * to) % 5) * 700; }

MTL_TEST(unequal_parts_arrive_one_after_the_other_on_every_member) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadedGroup threads(size, 4096);
    threads.run([&](int member) {
      std::vector<uint64_t> sent, received;
      std::vector<float> input, expected;
      for (int other = 0; other < size; ++other) {
        sent.push_back(length_between(member, other));
        received.push_back(length_between(other, member));
        for (uint64_t index = 0; index < sent.back(); ++index) {
          input.push_back(static_cast<float>(1e6 * member + 1e5 * other + static_cast<double>(index)));
        }
        for (uint64_t index = 0; index < received.back(); ++index) {
          expected.push_back(static_cast<float>(1e6 * other + 1e5 * member + static_cast<double>(index)));
        }
      }
      std::vector<float> output(expected.size());
      OperationRequest request = request_of(OperationKind::kAllToAll, &input, &output);
      request.parts = std::make_shared<const Parts>(Parts::of(sent, received));
      EXPECT(succeeded(threads.group(member).start(std::move(request)).wait()));
      EXPECT(output == expected);
      const uint64_t others = input.size() - sent[static_cast<size_t>(member)];
      EXPECT(threads.group(member).count_of(OperationKind::kAllToAll).sent_bytes == others * sizeof(float));
    });
  }
}

MTL_TEST(all_reduces_of_all_sizes_are_right_on_every_member) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadedGroup threads(size, 4096);
    threads.run([&](int member) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{300}, size_t{1024}, size_t{1025}, size_t{7001}}) {
        std::vector<float> values = numbers(count, member);
        EXPECT(succeeded(reduce(threads.group(member), &values)));
        bool is_right = true;
        for (size_t index = 0; index < count; ++index) {
          float expected = 0;
          for (int other = 0; other < size; ++other) expected += static_cast<float>(index % 97 + 100 * static_cast<size_t>(other));
          is_right = is_right && values[index] == expected;
        }
        EXPECT(is_right);
      }
    });
  }
}

// The sizes of steps depend on the operation. Large and small operations follow each other without waits.
MTL_TEST(large_operations_take_whole_buffers_between_small_ones) {
  for (const int size : {2, 3}) {
    const local::GroupLayout layout = local::LocalCommunicator::layout_of(size, {});
    EXPECT(layout.small_chunk_bytes < layout.buffer_bytes);
    ThreadedGroup threads(size, 0);
    threads.run([&](int member) {
      const size_t members = static_cast<size_t>(size), part = (size_t{8} << 20) / sizeof(float) / members + 7;
      std::vector<float> first = numbers(40'000, member), last = first, own = numbers(part, member);
      std::vector<float> all(part * members), sums(part), whole = numbers(part * members, member), reduced = whole;
      const std::vector<std::pair<OperationKind, std::array<std::vector<float>*, 2>>> operations = {
          {OperationKind::kAllReduce, {&first, &first}}, {OperationKind::kAllGather, {&own, &all}},
          {OperationKind::kReduceScatter, {&whole, &sums}}, {OperationKind::kAllReduce, {&reduced, &reduced}},
          {OperationKind::kAllReduce, {&last, &last}}};
      std::vector<Group::Work> works;
      for (const auto& [kind, operands] : operations) {
        works.push_back(threads.group(member).start(request_of(kind, operands[0], operands[1])));
      }
      for (Group::Work& work : works) EXPECT(succeeded(work.wait()));
      const auto sum_at = [&](size_t index) {
        return static_cast<float>(members * (index % 97) + 100 * (members * (members - 1) / 2));
      };
      bool is_right = first == last;
      for (size_t index = 0; index < first.size(); ++index) is_right = is_right && first[index] == sum_at(index);
      for (size_t index = 0; index < all.size(); ++index) {
        const size_t from = index / part;
        is_right = is_right && all[index] == static_cast<float>(index % part % 97 + 100 * from) && reduced[index] == sum_at(index);
      }
      for (size_t index = 0; index < part; ++index) {
        is_right = is_right && sums[index] == sum_at(part * static_cast<size_t>(member) + index);
      }
      EXPECT(is_right);
    });
  }
}

MTL_TEST(operations_started_together_are_done_in_order) {
  ThreadedGroup threads(3, 4096);
  threads.run([&](int member) {
    std::vector<std::vector<float>> all;
    for (int index = 0; index < 12; ++index) all.push_back(std::vector<float>(index % 2 == 0 ? 8 : 5000, 1.0f));
    std::vector<Group::Work> works;
    for (std::vector<float>& values : all) {
      works.push_back(threads.group(member).start(request_of(OperationKind::kAllReduce, &values, &values)));
    }
    // waits for the last one first: the wait executes the earlier ones, or waits for the thread that does
    for (size_t index = works.size(); index-- > 0;) {
      EXPECT(succeeded(works[index].wait()));
      EXPECT(works[index].is_done());
      EXPECT(all[index].front() == 3.0f && all[index].back() == 3.0f);
    }
    uint64_t num_dropped = 1;
    EXPECT(threads.trace(member).take(&num_dropped).size() == 12);
    EXPECT(num_dropped == 0);
  });
}

MTL_TEST(messages_pass_in_both_directions_at_once_whatever_their_size) {
  ThreadedGroup threads(2, 4096);
  threads.run([&](int member) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{40000}, size_t{400000}}) {
      std::vector<float> own = numbers(count, member), other(count);
      Group::Work received = threads.group(member).start(request_of(OperationKind::kReceive, nullptr, &other, 1 - member));
      Group::Work sent = threads.group(member).start(request_of(OperationKind::kSend, &own, nullptr, 1 - member));
      EXPECT(succeeded(sent.wait()));
      EXPECT(succeeded(received.wait()));
      EXPECT(other == numbers(count, 1 - member));
    }
    EXPECT(threads.group(member).count_of(OperationKind::kSend).sent_bytes == 4 * 440001);
  });
}

MTL_TEST(bytes_are_counted_as_a_ring_would_send_them) {
  const size_t count = 4096 * 4;
  ThreadedGroup threads(4, 16384);
  threads.run([&](int member) {
    std::vector<float> values(count, 1.0f);
    EXPECT(succeeded(reduce(threads.group(member), &values)));
    EXPECT(threads.group(member).count_of(OperationKind::kAllReduce).sent_bytes == 2 * count * sizeof(float) * 3 / 4);
  });
}

MTL_TEST(a_member_that_does_not_come_is_named) {
  ThreadedGroup threads(3, 4096, 100);
  std::vector<float> values[3];
  Group::Work works[3];
  // Both members have arrived before the first one waits: otherwise a thread that starts late would be named,
  // too.
  for (const int member : {0, 2}) {
    values[member].assign(5, 1.0f);
    works[member] = threads.group(member).start(request_of(OperationKind::kAllReduce, &values[member], &values[member]));
  }
  for (const int member : {0, 2}) {
    const Status status = works[member].wait();
    EXPECT(failed_with(status, "MTL_TIMEOUT"));
    EXPECT(status.failure().rank == 11);
    EXPECT(status.failure().sequence == "collective 0");
    EXPECT(threads.job(member).is_aborted());
    EXPECT(failed_with(threads.group(member).start(request_of(OperationKind::kBarrier, nullptr, nullptr)).wait(), "MTL_TIMEOUT"));
  }
}

// Returns the CPU time of all threads, in nanoseconds.
int64_t processor_ns() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

// Tests that waits sleep: the awaited threads may have no other core, and at a real-time priority a wait that
// occupied that core would never end.
MTL_TEST(a_member_that_waits_leaves_its_core_to_others) {
  ThreadedGroup threads(2, 4096, 500);
  std::vector<float> values(5, 1.0f), message(5);
  const int64_t before = processor_ns();
  // a receive on a thread of the group, and a collective on this one
  Group::Work receive = threads.group(0).start(request_of(OperationKind::kReceive, nullptr, &message, 1));
  const Status status = reduce(threads.group(0), &values);
  EXPECT(failed_with(status, "MTL_TIMEOUT") && status.failure().waited_ms >= 400);
  EXPECT(!receive.wait().ok());
  // Two waits that never slept would use a second of CPU time; checks every 50 ms use microseconds, with
  // sanitizers a millisecond or two.
  EXPECT(processor_ns() - before < 100 * kMillisecond);
}

// A time that no test reaches, however busy the machine is: the member appears to check all the time.
constexpr int64_t kAnHourNs = 3600 * 1000 * kMillisecond;

// Member 1 waits for another host, member 2 does not arrive.
MTL_TEST(a_member_that_waits_for_another_host_is_not_to_blame_while_it_looks_around) {
  ThreadedGroup threads(3, 4096, 100);
  threads.communicator(0).set_patience(kAnHourNs);
  threads.communicator(1).set_away(now_ns() + kAnHourNs);
  std::vector<float> values(5, 1.0f);
  const Status status = reduce(threads.group(0), &values);
  EXPECT(failed_with(status, "MTL_TIMEOUT"));
  EXPECT(status.failure().rank == 12);
  EXPECT(status.failure().message.find("rank 12 did not come") != std::string::npos);
}

MTL_TEST(a_member_that_waits_for_another_host_has_more_time_but_not_for_ever) {
  ThreadedGroup threads(2, 4096, 100);
  threads.communicator(0).set_patience(200 * kMillisecond);
  threads.communicator(1).set_away(now_ns() + kAnHourNs);
  std::vector<float> values(5, 1.0f);
  const Status status = reduce(threads.group(0), &values);
  EXPECT(failed_with(status, "MTL_TIMEOUT"));
  EXPECT(status.failure().rank == 11 && status.failure().waited_ms >= 300);
}

// A member was stopped while it waited for another host: its flag is set, but it no longer checks.
MTL_TEST(a_member_that_looks_around_no_more_is_to_blame) {
  ThreadedGroup threads(2, 4096, 100);
  threads.communicator(0).set_patience(kAnHourNs);
  threads.communicator(1).set_away(now_ns());
  std::vector<float> values(5, 1.0f);
  const Status status = reduce(threads.group(0), &values);
  EXPECT(failed_with(status, "MTL_TIMEOUT"));
  EXPECT(status.failure().rank == 11);
}

MTL_TEST(different_operations_are_refused_by_all) {
  ThreadedGroup threads(3, 4096);
  threads.run([&](int member) {
    std::vector<float> values(member == 2 ? 6 : 5, 1.0f);
    const Status status = reduce(threads.group(member), &values);
    EXPECT(failed_with(status, "MTL_MISMATCH"));
    EXPECT(status.failure().message.find("sum float32 5") != std::string::npos);
    EXPECT(status.failure().message.find("sum float32 6") != std::string::npos);
  });
}

MTL_TEST(an_abort_ends_a_wait) {
  ThreadedGroup threads(2, 4096);
  threads.run([&](int member) {
    if (member == 1) {
      Failure reason;
      reason.code = "MTL_ABORTED";
      reason.message = "a reason";
      return threads.job(0).abort(reason);
    }
    std::vector<float> values(5, 1.0f);
    const Status status = reduce(threads.group(member), &values);
    EXPECT(failed_with(status, "MTL_ABORTED"));
    EXPECT(status.failure().message.find("a reason") != std::string::npos);
  });
}

MTL_TEST(a_member_that_left_is_not_waited_for) {
  ThreadedGroup threads(2, 4096);
  threads.run([&](int member) {
    std::vector<float> values(5, 1.0f);
    EXPECT(succeeded(reduce(threads.group(member), &values)));
    if (member == 1) return threads.close(1);
    const Status status = threads.group(0).start(request_of(OperationKind::kReceive, nullptr, &values, 1)).wait();
    EXPECT(failed_with(status, "MTL_RANK_LEFT"));
    EXPECT(status.failure().rank == 11);
  });
}

MTL_TEST(closing_a_group_ends_what_it_has_under_way_and_lets_go_of_its_memory) {
  std::atomic<int> num_released{0};
  std::vector<float> small(5), large(5000), message(3);
  {
    ThreadedGroup threads(2, 4096);
    for (std::vector<float>* values : {&large, &small, &large}) {
      OperationRequest request = request_of(OperationKind::kAllReduce, values, values);
      request.release = [&] { ++num_released; };
      threads.group(1).start(std::move(request));
    }
    OperationRequest request = request_of(OperationKind::kReceive, nullptr, &message, 0);
    request.release = [&] { ++num_released; };
    threads.group(1).start(std::move(request));
    threads.close(1);
    EXPECT(num_released == 4);
  }
}

}  // namespace
}  // namespace mtl::comm::tests
