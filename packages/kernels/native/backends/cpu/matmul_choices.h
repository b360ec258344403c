// Chooses the code that computes a matmul on device cpu by timing the possible ways. Each problem is timed
// once, and its choice does not change later. For a problem without a choice, the instruction set's table
// decides (see simd/matmul.cc). Choices belong to the calling thread, because ranks may be threads of one
// process.
#pragma once

#include <string>

#include "backends/cpu/matmul_problem.h"

namespace mtl {

// The ways to compute a matmul: our kernels with packed operands, our kernels for few rows, and oneDNN.
enum class MatmulWay : int { kBlocks = 0, kFewRows = 1, kOneDnn = 2 };
constexpr int kNumMatmulWays = 3;
constexpr const char* kMatmulWayNames[kNumMatmulWays] = {"blocks", "few-rows", "oneDNN"};

// Sets the calling thread's choices from a string with one choice per line: the problem, a space, and the
// name of a way. If the string has a different form, returns MTL_MATMUL_CHOICES and changes nothing. If
// `times_others` is true, a matmul that has no choice yet is timed, and the result becomes its choice.
Status set_cpu_matmul_choices(const char* lines, bool times_others);
// Returns the choices in the format of `set_cpu_matmul_choices`, in the order of the problems. While matmuls
// are timed, returns only the choices for matmuls that have been computed.
std::string cpu_matmul_choices();

// Returns the name of a problem, which states its dtypes, its sizes, the transposed operands, and if the
// result is added to the output.
std::string name_of_problem(const MatmulProblem& problem);
// Finds the stored choice for a problem. Returns false if there is none.
bool find_cpu_matmul_choice(const MatmulProblem& problem, MatmulWay* way);
// Returns true if a matmul without a choice is to be timed.
bool times_cpu_matmuls();
// Times the ways that can compute a problem, one after another, and stores a choice for the problem: the
// fastest way if it takes at least 3 % less time than `usual`, otherwise `usual`. `compute(way)` computes the
// problem using a way; `can_compute[way]` is true if the way can compute it.
Status choose_cpu_matmul(const MatmulProblem& problem, MatmulWay usual, const bool (&can_compute)[kNumMatmulWays],
                         Status (*compute)(const MatmulProblem&, MatmulWay), MatmulWay* chosen);

// Returns the way, as an int, in which the calling thread's last matmul was computed; -1 before the first
// matmul.
int last_cpu_matmul_way();
void set_last_cpu_matmul_way(MatmulWay way);

}  // namespace mtl
