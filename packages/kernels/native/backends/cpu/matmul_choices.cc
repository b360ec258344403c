#include "backends/cpu/matmul_choices.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

namespace mtl {
namespace {

// A way is chosen only if it is faster than the usual way by at least this fraction. Smaller differences
// change from one timing to the next.
constexpr double kLeastGain = 0.03;
// A way's time is its shortest time over several rounds, because this time is affected least by other
// programs.
constexpr int kFewestRounds = 3, kMostRounds = 15;
constexpr double kSecondsOfRounds = 0.1;  // after which no round begins, once there are the fewest

struct Choice {
  MatmulWay way;
  bool is_used = false;  // a matmul asked for it
};

struct Choices {
  std::map<std::string, Choice> by_problem;
  bool times_others = false;
};

thread_local Choices choices;
thread_local int last_way = -1;

bool parse(const std::string& name, MatmulWay* way) {
  for (int i = 0; i < kNumMatmulWays; ++i) {
    if (name != kMatmulWayNames[i]) continue;
    *way = static_cast<MatmulWay>(i);
    return true;
  }
  return false;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Status set_cpu_matmul_choices(const char* lines, bool times_others) {
  std::map<std::string, Choice> parsed;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) {
    const size_t end = line.find(' ');
    MatmulWay way;
    if (end == 0 || end == std::string::npos || !parse(line.substr(end + 1), &way)) {
      return error_status("MTL_MATMUL_CHOICES", "a choice of a matmul's kernel is \"%.80s\", expected a problem and one of "
                          "blocks, few-rows and oneDNN", line.c_str());
    }
    parsed[line.substr(0, end)] = {way};
  }
  choices = {std::move(parsed), times_others};
  return ok_status();
}

std::string cpu_matmul_choices() {
  std::string text;
  for (const auto& [problem, choice] : choices.by_problem) {
    if (choices.times_others && !choice.is_used) continue;
    text += problem + " " + kMatmulWayNames[static_cast<int>(choice.way)] + "\n";
  }
  return text;
}

std::string name_of_problem(const MatmulProblem& p) {
  char name[160];
  std::snprintf(name, sizeof name, "%s,%s,%lld,%lld,%lld,%lld,%c%c%s", name_of(p.input_dtype), name_of(p.output_dtype),
                static_cast<long long>(p.batch), static_cast<long long>(p.rows), static_cast<long long>(p.columns),
                static_cast<long long>(p.inner), p.transpose_left ? 't' : 'n', p.transpose_right ? 't' : 'n',
                p.accumulate ? ",added" : "");
  return name;
}

bool find_cpu_matmul_choice(const MatmulProblem& problem, MatmulWay* way) {
  if (choices.by_problem.empty()) return false;
  const auto found = choices.by_problem.find(name_of_problem(problem));
  if (found == choices.by_problem.end()) return false;
  found->second.is_used = true;
  *way = found->second.way;
  return true;
}

bool times_cpu_matmuls() { return choices.times_others; }

Status choose_cpu_matmul(const MatmulProblem& problem, MatmulWay usual, const bool (&can_compute)[kNumMatmulWays],
                         Status (*compute)(const MatmulProblem&, MatmulWay), MatmulWay* chosen) {
  double seconds[kNumMatmulWays];
  std::fill_n(seconds, kNumMatmulWays, 1e9);
  const double start = now();
  // the first round is not timed: it creates oneDNN's primitives and fills caches
  for (int round = -1; round < kMostRounds && (round < kFewestRounds || now() - start < kSecondsOfRounds); ++round) {
    for (int i = 0; i < kNumMatmulWays; ++i) {
      if (!can_compute[i]) continue;
      const double begin = now();
      MTL_RETURN_IF_ERROR(compute(problem, static_cast<MatmulWay>(i)));
      if (round >= 0) seconds[i] = std::min(seconds[i], now() - begin);
    }
  }
  const int fastest = static_cast<int>(std::min_element(seconds, seconds + kNumMatmulWays) - seconds);
  const bool gains = seconds[fastest] <= (1 - kLeastGain) * seconds[static_cast<int>(usual)];
  *chosen = gains ? static_cast<MatmulWay>(fastest) : usual;
  choices.by_problem[name_of_problem(problem)] = {*chosen, true};
  return ok_status();
}

int last_cpu_matmul_way() { return last_way; }
void set_last_cpu_matmul_way(MatmulWay way) { last_way = static_cast<int>(way); }

}  // namespace mtl
