#include "backends/cuda/scratch/attention.h"

#include "core/op_registry.h"

namespace mtl::cuda {
namespace {

constexpr int64_t kQueriesOfTile = 64;

void add_first_keys(const AttentionProblem& problem, ScratchBlocks* blocks) {
  if (takes_first_keys(problem)) blocks->add(problem.batch * problem.num_queries * static_cast<int64_t>(sizeof(int32_t)));
}

Status forward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  if (call.tensor(AttentionForward::kOutput).size() == 0) return ok_status();
  const AttentionProblem problem = attention_forward_problem(call);
  MTL_RETURN_IF_ERROR(check_attention(call.op, problem));
  add_first_keys(problem, blocks);
  return ok_status();
}

Status backward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  if (call.tensor(AttentionBackward::kOutputGradient).size() == 0) return ok_status();
  const AttentionProblem problem = attention_backward_problem(call);
  MTL_RETURN_IF_ERROR(check_attention(call.op, problem));
  add_first_keys(problem, blocks);
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("attention_forward", forward);
MTL_REGISTER_CUDA_SCRATCH("attention_backward", backward);

}  // namespace

bool is_generation(const AttentionProblem& problem) {
  const bool is_output_alone = problem.log_sum_exp == nullptr && problem.first_query - problem.first_key < problem.num_keys &&
                               problem.starts == nullptr && problem.key_start == nullptr &&
                               problem.key_mask == nullptr && problem.dropout_probability == 0.0;
  // only the kernel for generation can compute larger heads
  return is_output_alone && (problem.num_queries < kQueriesOfTile || problem.head_size > kMaxAttentionHeadSize);
}

bool is_part(const AttentionProblem& problem, const AttentionOperand& result) {
  return problem.first_query != 0 || problem.first_key != 0 || problem.num_keys != problem.num_queries || result.dtype != problem.dtype;
}

bool has_first_keys(const AttentionProblem& problem) {
  return problem.window != kNoWindow || (problem.key_start != nullptr && problem.first_key != 0);
}

bool takes_first_keys(const AttentionProblem& problem) {
  return has_first_keys(problem) && problem.starts == nullptr && !is_generation(problem);
}

Status check_attention(const char* op, const AttentionProblem& problem) {
  const DType dtype = problem.dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16 && dtype != DType::kFloat16) {
    return error_status("MTL_UNSUPPORTED", "%s: %s on device cuda, expected float32, bfloat16 or float16; devices cpu "
                        "and reference have others", op, name_of(dtype));
  }
  if (problem.soft_cap != 0.0 || problem.highest_scores != nullptr) {
    return error_status("MTL_UNSUPPORTED", "%s: %s on device cuda, expected none: use device cpu", op,
                        problem.soft_cap != 0.0 ? "a soft cap of scores" : "highestScores");
  }
  if (problem.value_size != problem.head_size) {
    return error_status("MTL_UNSUPPORTED", "%s: a head size of %lld with values of %lld on device cuda, expected values "
                        "of the head size: fill up the smaller with zeros and pass the scale of the unpadded head size, "
                        "or use device cpu", op, static_cast<long long>(problem.head_size),
                        static_cast<long long>(problem.value_size));
  }
  if (problem.head_size > kMaxAttentionHeadSize && !is_generation(problem)) {
    return error_status("MTL_UNSUPPORTED", "%s: a head size of %lld on device cuda, expected %lld at most: use more and "
                        "smaller heads, or device cpu", op, static_cast<long long>(problem.head_size),
                        static_cast<long long>(kMaxAttentionHeadSize));
  }
  if (problem.batch * problem.heads > kMaxHeadsOfSamples) {
    return error_status("MTL_UNSUPPORTED", "%s: %lld samples of %lld heads on device cuda, expected %lld heads of all "
                        "samples at most: use fewer samples at a time (a smaller micro-batch)", op,
                        static_cast<long long>(problem.batch), static_cast<long long>(problem.heads),
                        static_cast<long long>(kMaxHeadsOfSamples));
  }
  // positions have 32-bit indices
  if (problem.first_query + problem.num_queries < kNoWindow && problem.first_key + problem.num_keys < kNoWindow) return ok_status();
  return error_status("MTL_UNSUPPORTED", "%s: %lld queries from position %lld on and %lld keys from position %lld on on "
                      "device cuda, expected fewer than 2^30 positions: use shorter sequences", op,
                      static_cast<long long>(problem.num_queries), static_cast<long long>(problem.first_query),
                      static_cast<long long>(problem.num_keys), static_cast<long long>(problem.first_key));
}

}  // namespace mtl::cuda
