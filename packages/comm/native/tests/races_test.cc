// Ranks as threads over one mapping, for ThreadSanitizer, which cannot compare the accesses of two processes.
// docs/decisions/communication.md says which mistakes in the order of accesses it reports.
#include <string>

#include "core/clock.h"
#include "engines/local/host_board.h"
#include "engines/local/watchdog.h"
#include "tests/native_test.h"

namespace mtl::comm::tests {
namespace {

using local::HostBoard;
using local::SegmentAddress;

constexpr int kSizes[] = {2, 3, 4};
constexpr int64_t kLongNs = 20000 * kMillisecond;  // never reached unless something is broken

// A value that tells rounds, members and places apart.
float value_of(int round, int member, size_t index) {
  return static_cast<float>(1000 * round + 100 * member) + static_cast<float>(index % 89);
}

std::vector<float> values_of(int round, int member, size_t count) {
  std::vector<float> values(count);
  for (size_t index = 0; index < count; ++index) values[index] = value_of(round, member, index);
  return values;
}

// Starts an operation of one member.
Group::Work start(Group& group, OperationKind kind, const std::vector<float>* input, std::vector<float>* output,
                  int peer = -1) {
  OperationRequest request;
  request.kind = kind;
  request.peer = peer;
  if (input != nullptr) {
    request.input = const_cast<float*>(input->data());
    request.input_bytes = input->size() * sizeof(float);
  }
  if (output != nullptr) {
    request.output = output->data();
    request.output_bytes = output->size() * sizeof(float);
  }
  return group.start(std::move(request));
}

// Every kind of operation in turn, without a pause, so that members reuse buffers, descriptions and slots as
// early as they may.
MTL_TEST(races_between_operations_of_all_kinds) {
  for (const int size : kSizes) {
    ThreadedGroup threads(size, 4096);
    threads.run([&](int member) {
      Group& group = threads.group(member);
      const int next = (member + 1) % size, last = (member + size - 1) % size;
      const size_t members = static_cast<size_t>(size);
      for (int round = 0; round < 12; ++round) {
        // one step, several steps, and for the message more slots than the ring has
        const size_t count = round % 3 == 0 ? 24 : 3000 * members;
        const size_t sent = round % 6 == 5 ? 200000 : count;
        const std::vector<float> own = values_of(round, member, count), message = values_of(round, member, sent);
        std::vector<float> sum = own, gathered(members * count), part(count / members), parts(count), received(sent);
        std::vector<float> rooted = own;
        const int root = round % size;
        Group::Work receive = start(group, OperationKind::kReceive, nullptr, &received, last);
        Group::Work send = start(group, OperationKind::kSend, &message, nullptr, next);
        EXPECT(succeeded(start(group, OperationKind::kAllReduce, &sum, &sum).wait()));
        EXPECT(succeeded(start(group, OperationKind::kAllGather, &own, &gathered).wait()));
        EXPECT(succeeded(start(group, OperationKind::kReduceScatter, &own, &part).wait()));
        EXPECT(succeeded(start(group, OperationKind::kBroadcast, &rooted, &rooted, root).wait()));
        EXPECT(succeeded(start(group, OperationKind::kAllToAll, &own, &parts).wait()));
        EXPECT(succeeded(start(group, OperationKind::kBarrier, nullptr, nullptr).wait()));
        EXPECT(succeeded(send.wait()) && succeeded(receive.wait()));
        EXPECT(rooted == values_of(round, root, count));
        EXPECT(received == values_of(round, last, sent));
        bool is_right = true;
        const size_t length = count / members, start_of_part = static_cast<size_t>(member) * length;
        for (size_t index = 0; index < count; ++index) {
          float expected = 0;
          for (int other = 0; other < size; ++other) {
            expected += value_of(round, other, index);
            is_right = is_right && gathered[static_cast<size_t>(other) * count + index] == value_of(round, other, index);
          }
          is_right = is_right && sum[index] == expected;
          const size_t sender = index / length, place = start_of_part + index % length;
          is_right = is_right && parts[index] == value_of(round, static_cast<int>(sender), place);
          if (index >= start_of_part && index < start_of_part + length) {
            is_right = is_right && part[index - start_of_part] == expected;
          }
        }
        EXPECT(is_right);
      }
    });
  }
}

// Boards of threads, which use one mapping.
class ThreadedBoards {
 public:
  explicit ThreadedBoards(int size) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(rank);
      jobs_.push_back(std::make_unique<JobState>(rank));
    }
    for (int rank = 0; rank < size; ++rank) {
      std::unique_ptr<HostBoard> board;
      if (rank == 0) {
        EXPECT(succeeded(HostBoard::create(&job(0), ranks, &board)));
      } else {
        board = HostBoard::borrow(&job(rank), ranks, *boards_.front());
      }
      job(rank).on_abort([board = board.get()](const Failure& reason) { board->write_abort(reason); });
      boards_.push_back(std::move(board));
    }
  }
  JobState& job(int rank) { return *jobs_[static_cast<size_t>(rank)]; }
  HostBoard& board(int rank) { return *boards_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(jobs_.size()); }
  template <typename Body>
  void run(const Body& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<JobState>> jobs_;
  std::vector<std::unique_ptr<HostBoard>> boards_;
};

MTL_TEST(races_between_ranks_that_announce_find_and_leave) {
  for (const int size : kSizes) {
    ThreadedBoards boards(size);
    boards.run([&](int rank) {
      HostBoard& board = boards.board(rank);
      EXPECT(succeeded(board.join(kLongNs)));
      for (int number = 0; number < 40; ++number) {
        const auto key_of = [&](int index) { return static_cast<uint64_t>(1000 * (index + 1) + number); };
        EXPECT(succeeded(board.publish(key_of(rank), {rank, number, key_of(rank) + 7, key_of(rank) + 9})));
        for (int other = 0; other < size; ++other) {
          SegmentAddress found;
          EXPECT(succeeded(board.find(other, key_of(other), "group", kLongNs, &found)));
          EXPECT(found.pid == other && found.fd == number);
          EXPECT(found.nonce == key_of(other) + 7 && found.bytes == key_of(other) + 9);
        }
      }
      if (rank == 0) return board.leave();
      SegmentAddress found;
      EXPECT(failed_with(board.find(0, 999, "group", kLongNs, &found), "MTL_RANK_LEFT"));
    });
  }
}

// All ranks fail at once: all get the words of one of the ranks, whole.
MTL_TEST(races_between_ranks_that_abort) {
  for (const int size : kSizes) {
    for (int repetition = 0; repetition < 10; ++repetition) {
      ThreadedBoards boards(size);
      std::vector<int> first(static_cast<size_t>(size), -1);
      boards.run([&](int rank) {
        Failure reason, read;
        reason.code = "MTL_OF_" + std::to_string(rank);
        reason.message = std::string(1000, static_cast<char>('a' + rank));
        reason.rank = rank;
        boards.board(rank).write_abort(reason);
        while (!boards.board(rank).read_abort(&read)) std::this_thread::yield();
        EXPECT(read.code == "MTL_OF_" + std::to_string(read.rank));
        EXPECT(read.message == std::string(1000, static_cast<char>('a' + read.rank)));
        first[static_cast<size_t>(rank)] = read.rank;
      });
      for (const int each : first) EXPECT(each == first.front());
    }
  }
}

// The way of a failure to a rank that waits: abort state, board, watchdog, abort state.
MTL_TEST(races_between_an_abort_and_the_ranks_that_wait) {
  for (const int size : kSizes) {
    ThreadedBoards boards(size);
    ThreadedGroup threads(size, 4096);
    boards.run([&](int rank) {
      EXPECT(succeeded(boards.board(rank).join(kLongNs)));
      // a watchdog of threads sees no death; it brings the board's abort to the job
      std::unique_ptr<local::Watchdog> watchdog;
      EXPECT(succeeded(local::Watchdog::start(&boards.job(rank), &boards.board(rank), kLongNs, &watchdog)));
      boards.job(rank).on_abort([&, rank](const Failure& reason) { threads.job(rank).abort(reason); });
      Group& group = threads.group(rank);
      std::vector<float> values(100, 1.0f), message(5);
      EXPECT(succeeded(start(group, OperationKind::kAllReduce, &values, &values).wait()));
      if (rank == 0) {
        Failure reason;
        reason.code = "MTL_FIRST";
        reason.message = "the words of rank 0";
        reason.rank = 0;
        return boards.job(0).abort(reason);
      }
      Group::Work receive = start(group, OperationKind::kReceive, nullptr, &message, 0);
      EXPECT(failed_with(start(group, OperationKind::kBarrier, nullptr, nullptr).wait(), "MTL_FIRST"));
      EXPECT(failed_with(receive.wait(), "MTL_FIRST"));
      SegmentAddress found;
      EXPECT(failed_with(boards.board(rank).find(0, 5, "group", kLongNs, &found), "MTL_FIRST"));
    });
  }
}

}  // namespace
}  // namespace mtl::comm::tests
