// Chooses the code that computes a matmul on device cpu by timing the possible ways. Each problem is timed
// once, and the choice does not change later. A problem without a choice follows the table of its instruction
// set (simd/matmul.cc). Choices belong to the calling thread, since ranks may be threads of one process.
#pragma once

#include <string>

#include "backends/cpu/matmul_problem.h"

namespace mtl {

// Our kernels with packed operands, our kernels for few rows, and oneDNN.
enum class MatmulWay : int { kBlocks = 0, kFewRows = 1, kOneDnn = 2 };
constexpr int kNumMatmulWays = 3;
constexpr const char* kMatmulWayNames[kNumMatmulWays] = {"blocks", "few-rows", "oneDNN"};

// Sets the choices of the calling thread from text with one choice per line: the problem, a space, and the
// name of a way. Other text gives MTL_MATMUL_CHOICES and changes nothing. With `times_others`, a matmul that
// has no choice yet is timed, and the result becomes its choice.
Status set_cpu_matmul_choices(const char* lines, bool times_others);
// Returns the choices in the format of `set_cpu_matmul_choices`, in the order of the problems; While matmuls
// are timed, returns only the choices of the matmuls that have been computed.
std::string cpu_matmul_choices();

// Returns the name of a problem: its dtypes, sizes and transposed operands, and whether the product is added
// to the output.
std::string name_of_problem(const MatmulProblem& problem);
// Finds the choice for a problem. Returns false if there is none.
bool find_cpu_matmul_choice(const MatmulProblem& problem, MatmulWay* way);
// Returns true if matmuls without a choice are timed.
bool times_cpu_matmuls();
// Times the ways that can compute a problem, one after the other, and stores a choice for the problem: the
// fastest way if it takes at least 3 % less time than `usual`, otherwise `usual`. `compute(way)` computes the
// problem. `can_compute[way]` is true for ways that can compute it.
Status choose_cpu_matmul(const MatmulProblem& problem, MatmulWay usual, const bool (&can_compute)[kNumMatmulWays],
                         Status (*compute)(const MatmulProblem&, MatmulWay), MatmulWay* chosen);

// The number of the implementation that computed the last matmul of the calling thread; -1 before the first.
int last_cpu_matmul_way();
void set_last_cpu_matmul_way(MatmulWay way);

}  // namespace mtl
