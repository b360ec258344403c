#include "backends/cuda/cublaslt/cublaslt.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "backends/cuda/cublaslt/cublaslt_api.h"
#include "backends/cuda/cublaslt/matmul_choices.h"
#include "backends/cuda/cublaslt/time_candidates.h"
#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/graphs.h"
#include "backends/cuda/scratch/linear.h"

namespace mtl::cuda {
namespace {

// The size of the workspace that NVIDIA recommends for Hopper. A smaller workspace excludes the fastest
// matmuls.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

lt::Functions functions = {};
std::string path;
bool is_tf32_allowed = false;
lt::Handle handle = nullptr;
void* workspace = nullptr;

Status status_of(int result, const char* what) {
  if (result == lt::kSuccess) return ok_status();
  if (result == lt::kAllocationFailed) {
    return error_status("MTL_OUT_OF_MEMORY", "%s: the device or the host has no memory left for the library", what);
  }
  return error_status("MTL_CUBLASLT", "%s failed with cuBLAS status %d", what, result);
}

#define MTL_RETURN_IF_LT_ERROR(function, ...) MTL_RETURN_IF_ERROR(status_of(functions.function(__VA_ARGS__), #function))

// Resolves all functions. Returns null, or the name of the first missing function.
const char* resolve(void* library) {
#define MTL_RESOLVE(name)                                                                   \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));       \
  if (functions.name == nullptr) return #name;
  MTL_RESOLVE(cublasLtGetVersion)
  MTL_RESOLVE(cublasLtCreate)
  MTL_RESOLVE(cublasLtMatmulDescCreate)
  MTL_RESOLVE(cublasLtMatmulDescDestroy)
  MTL_RESOLVE(cublasLtMatmulDescSetAttribute)
  MTL_RESOLVE(cublasLtMatrixLayoutCreate)
  MTL_RESOLVE(cublasLtMatrixLayoutDestroy)
  MTL_RESOLVE(cublasLtMatrixLayoutSetAttribute)
  MTL_RESOLVE(cublasLtMatmulPreferenceCreate)
  MTL_RESOLVE(cublasLtMatmulPreferenceDestroy)
  MTL_RESOLVE(cublasLtMatmulPreferenceSetAttribute)
  MTL_RESOLVE(cublasLtMatmulAlgoGetHeuristic)
  MTL_RESOLVE(cublasLtMatmul)
#undef MTL_RESOLVE
  return nullptr;
}

std::string real_path(void* library, const std::string& name) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name : name;
}

int32_t type_of(DType dtype) {
  return dtype == DType::kBFloat16 ? lt::kBReal16 : dtype == DType::kFloat16 ? lt::kReal16 : lt::kReal32;
}

// Returns the largest power of two, up to 256, that divides the given address.
uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & ~(address - 1));
}

// Returns the matrix that is added to the matmul's result. If nothing is added, the library does not read it.
const void* matrix_c(const MatmulProblem& p) { return p.fused == FusedWith::kResidual ? p.addend : p.output; }

// All values that determine a plan, which is the prepared matmul for a shape.
using Key = std::array<int64_t, 19>;

Key key_of(const MatmulProblem& p) {
  return {p.batch,
          p.rows,
          p.columns,
          p.inner,
          p.transpose_left,
          p.transpose_right,
          p.accumulate,
          p.bias != nullptr,
          static_cast<int64_t>(p.input_dtype),
          static_cast<int64_t>(p.output_dtype),
          alignment_of(p.left),
          alignment_of(p.right),
          alignment_of(p.output),
          static_cast<int64_t>(p.fused),
          alignment_of(p.bias),
          alignment_of(p.auxiliary),
          alignment_of(p.bias_gradient),
          alignment_of(p.addend),
          is_tf32_allowed};
}

// Returns the name that identifies a problem in choices.
std::string name_of_problem(const Key& key) {
  std::string name;
  for (const int64_t part : key) name += (name.empty() ? "" : ",") + std::to_string(part);
  return name;
}

// A matmul that is prepared for a certain shape. Plans are kept for the lifetime of the process, because a
// process uses few shapes.
struct Plan {
  lt::Description description = nullptr;
  lt::Layout a = nullptr, b = nullptr, d = nullptr;
  lt::Choice choice = {};
  bool is_offered = false;
  int status = lt::kSuccess;  // the library's status for the selected algorithm
};

std::mutex mutex;
std::map<Key, Plan>& plans() {
  static auto* all = new std::map<Key, Plan>();
  return *all;
}

// The following variables are guarded by the same mutex as the plans.
bool times_candidates = false;
MatmulChoices& choices() {
  static auto* all = new MatmulChoices();
  return *all;
}

// Creates the layout of a matrix. The library is column-major and interprets a row-major matrix as its
// transpose. The transposed matmul is therefore computed, right^T times left^T, and no matrix in memory is
// changed.
Status make_layout(const MatmulProblem& p, DType dtype, int64_t rows, int64_t columns, lt::Layout* layout) {
  MTL_RETURN_IF_LT_ERROR(cublasLtMatrixLayoutCreate, layout, type_of(dtype), static_cast<uint64_t>(rows),
                         static_cast<uint64_t>(columns), rows);
  if (p.batch == 1) return ok_status();
  const int32_t count = static_cast<int32_t>(p.batch);
  const int64_t stride = rows * columns;
  MTL_RETURN_IF_LT_ERROR(cublasLtMatrixLayoutSetAttribute, *layout, lt::LayoutAttribute::kBatchCount, &count, sizeof count);
  MTL_RETURN_IF_LT_ERROR(cublasLtMatrixLayoutSetAttribute, *layout, lt::LayoutAttribute::kBatchStride, &stride,
                         sizeof stride);
  return ok_status();
}

template <typename Value>
Status describe(const Plan& plan, lt::DescriptionAttribute attribute, const Value& value) {
  MTL_RETURN_IF_LT_ERROR(cublasLtMatmulDescSetAttribute, plan.description, attribute, &value, sizeof value);
  return ok_status();
}

lt::Epilogue epilogue_of(const MatmulProblem& p) {
  switch (p.fused) {
    case FusedWith::kGelu:
      return lt::Epilogue::kGeluAuxiliaryBias;
    case FusedWith::kGeluGradient:
      return lt::Epilogue::kGeluGradient;
    case FusedWith::kBiasGradient:
      return lt::Epilogue::kBiasGradientB;  // operand B of the transposed matmul is the left one
    default:
      return p.bias == nullptr ? lt::Epilogue::kDefault : lt::Epilogue::kBias;
  }
}

// Returns true if a status means that the library does not support the matmul. If a matmul has an epilogue
// and its combination of types and strides is not supported, the library returns "invalid value" or "not
// supported". If there is no epilogue, "invalid value" is our bug.
bool is_refusal(const MatmulProblem& p, int result) {
  return result == lt::kUnsupported || (result == lt::kInvalidValue && epilogue_of(p) != lt::Epilogue::kDefault);
}

// Sets the pointers in a description, which may differ in every run.
Status describe_pointers(const MatmulProblem& p, const Plan& plan) {
  const void* const bias = p.fused == FusedWith::kBiasGradient ? p.bias_gradient : p.bias;
  if (bias != nullptr) MTL_RETURN_IF_ERROR(describe(plan, lt::DescriptionAttribute::kBiasPointer, bias));
  if (p.auxiliary == nullptr) return ok_status();
  return describe(plan, lt::DescriptionAttribute::kAuxiliaryPointer, p.auxiliary);
}

// Returns true if the additional operands of epilogues can be read 16 bytes at a time. For an auxiliary
// matrix, the documentation requires 16-byte aligned rows of a multiple of 8 elements. It says nothing about
// a bias, and the heuristic has no attribute for a bias's alignment; kernels that read a bias 16 bytes at a
// time have caused misaligned-address errors for other users. After such an error, the process cannot use its
// device any more.
bool takes_vectors(const MatmulProblem& p) {
  constexpr uint32_t kAccess = 16;
  const auto is_aligned = [](const void* data) { return data == nullptr || alignment_of(data) >= kAccess; };
  return is_aligned(p.bias) && is_aligned(p.bias_gradient) && is_aligned(p.auxiliary) &&
         (p.auxiliary == nullptr || p.columns % 8 == 0);
}

Status make_description(const MatmulProblem& p, Plan* plan) {
  const bool is_float32 = p.input_dtype == DType::kFloat32;
  MTL_RETURN_IF_LT_ERROR(cublasLtMatmulDescCreate, &plan->description,
                         is_float32 && is_tf32_allowed ? lt::kCompute32FastTf32 : lt::kCompute32, lt::kReal32);
  MTL_RETURN_IF_ERROR(describe(*plan, lt::DescriptionAttribute::kTransposeA, p.transpose_right ? lt::kTranspose : lt::kNone));
  MTL_RETURN_IF_ERROR(describe(*plan, lt::DescriptionAttribute::kTransposeB, p.transpose_left ? lt::kTranspose : lt::kNone));
  const lt::Epilogue epilogue = epilogue_of(p);
  if (epilogue == lt::Epilogue::kDefault) return ok_status();
  MTL_RETURN_IF_ERROR(describe(*plan, lt::DescriptionAttribute::kEpilogue, epilogue));
  if (p.fused != FusedWith::kGeluGradient) {
    MTL_RETURN_IF_ERROR(describe(*plan, lt::DescriptionAttribute::kBiasType, type_of(p.output_dtype)));
  }
  if (p.auxiliary != nullptr) {
    // by default, the auxiliary matrix has the type of the output
    MTL_RETURN_IF_ERROR(describe(*plan, lt::DescriptionAttribute::kAuxiliaryStride, p.columns));
  }
  // the pointers must be set, because the choice of the algorithm depends on their alignment
  return describe_pointers(p, *plan);
}

const char* name_of_fused(FusedWith fused) {
  switch (fused) {
    case FusedWith::kGelu:
      return "gelu";
    case FusedWith::kGeluGradient:
      return "gelu gradient";
    case FusedWith::kBiasGradient:
      return "bias gradient";
    case FusedWith::kResidual:
      return "residual";
    default:
      return "bias";
  }
}

bool is_reporting() {
  static const bool is_set = is_set_to("MTL_CUBLASLT_REPORT", "1");
  return is_set;
}

// Prints a line for each new plan with fused operations if MTL_CUBLASLT_REPORT=1. This is useful because
// NVIDIA does not document completely which GPU supports which fusion.
void report_plan(const MatmulProblem& p, const Plan& plan, const char* when) {
  if (!is_reporting() || epilogue_of(p) == lt::Epilogue::kDefault) return;
  std::fprintf(stderr, "cuBLASLt: %s [%lld, %lld, %lld] %s into %s: %s at %s (status %d)\n", name_of_fused(p.fused),
               static_cast<long long>(p.rows), static_cast<long long>(p.columns), static_cast<long long>(p.inner),
               name_of(p.input_dtype), name_of(p.output_dtype), plan.is_offered ? "offered" : "not offered", when,
               plan.status);
}

// Prints the times of a problem's candidates if MTL_CUBLASLT_REPORT=1.
void report_times(const MatmulProblem& p, int num_candidates, const TimedCandidates& timed) {
  if (!is_reporting()) return;
  std::fprintf(stderr, "cuBLASLt: [%lld, %lld, %lld] %s into %s: candidate %d of %d, %.4f ms (the first %.4f ms)\n",
               static_cast<long long>(p.rows), static_cast<long long>(p.columns), static_cast<long long>(p.inner),
               name_of(p.input_dtype), name_of(p.output_dtype), timed.fastest + 1, num_candidates,
               static_cast<double>(timed.milliseconds), static_cast<double>(timed.first_milliseconds));
}

constexpr char kTiming[] = "timing matmuls";
// How many candidates are timed at most. The library sorts candidates by its own estimate.
constexpr int kMostCandidates = 8;
using Candidates = std::array<lt::Choice, kMostCandidates>;

// Finds at most `num_asked` of the library's algorithms for a problem. They are sorted by the library's
// estimate, the fastest first.
Status find_candidates(const MatmulProblem& p, Plan* plan, int num_asked, Candidates* candidates, int* num_found) {
  lt::Preference preference = nullptr;
  MTL_RETURN_IF_LT_ERROR(cublasLtMatmulPreferenceCreate, &preference);
  const auto set = [&](lt::PreferenceAttribute attribute, const auto& value) {
    return status_of(functions.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
  };
  Status status = set(lt::PreferenceAttribute::kMaxWorkspaceBytes, uint64_t{kWorkspaceBytes});
  // excludes algorithms that add partial sums in place, because the order is fixed only in a reduction
  // through the workspace
  if (status.ok()) status = set(lt::PreferenceAttribute::kReductionSchemes, lt::kReduceInComputeType);
  if (status.ok()) status = set(lt::PreferenceAttribute::kAlignmentA, alignment_of(p.right));
  if (status.ok()) status = set(lt::PreferenceAttribute::kAlignmentB, alignment_of(p.left));
  if (status.ok()) status = set(lt::PreferenceAttribute::kAlignmentC, alignment_of(matrix_c(p)));
  if (status.ok()) status = set(lt::PreferenceAttribute::kAlignmentD, alignment_of(p.output));
  *num_found = 0;
  *candidates = {};
  if (status.ok()) {
    const int result = functions.cublasLtMatmulAlgoGetHeuristic(handle, plan->description, plan->a, plan->b, plan->d,
                                                                plan->d, preference, num_asked, candidates->data(), num_found);
    plan->status = result;
    // The library's version and the types determine which epilogues are available. Any other error is our bug
    if (!is_refusal(p, result)) status = status_of(result, "cublasLtMatmulAlgoGetHeuristic");
    if (result != lt::kSuccess) *num_found = 0;
  }
  functions.cublasLtMatmulPreferenceDestroy(preference);
  return status;
}

// Enqueues a problem with the given algorithm. Returns the library's status.
int enqueue(const MatmulProblem& p, const Plan& plan, const lt::Algorithm& algorithm) {
  const float alpha = 1.0f, beta = p.accumulate || p.fused == FusedWith::kResidual ? 1.0f : 0.0f;
  return functions.cublasLtMatmul(handle, plan.description, &alpha, p.right, plan.a, p.left, plan.b, &beta, matrix_c(p), plan.d,
                                  p.output, plan.d, &algorithm, workspace, kWorkspaceBytes, compute_stream());
}

// Finds the candidate that a choice names. Wherever the choice comes from, an algorithm is used only if the
// library itself offers it for the problem.
Status find_chosen(const Candidates& candidates, int num_found, const lt::Algorithm& chosen, lt::Choice* choice) {
  for (int index = 0; index < num_found; ++index) {
    if (std::memcmp(&candidates[index].algorithm, &chosen, sizeof chosen) != 0) continue;
    *choice = candidates[index];
    return ok_status();
  }
  return error_status("MTL_MATMUL_CHOICES", "the algorithm that was chosen for a matmul is none of the %d that cuBLASLt offers "
                      "for it", num_found);
}

// Times the candidates with the problem's own operands, and uses the fastest one for all later runs of the
// problem. The timing overwrites the output with meaningless values.
Status choose_by_time(const MatmulProblem& p, const Candidates& candidates, int num_found, const Key& key, Plan* plan) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kTiming));
  TimedCandidates timed;
  MTL_RETURN_IF_ERROR(time_candidates(
      num_found,
      [&](int index, bool* is_refused) {
        const lt::Choice& candidate = candidates[static_cast<size_t>(index)];
        const int result = candidate.status == lt::kSuccess ? enqueue(p, *plan, candidate.algorithm) : candidate.status;
        *is_refused = is_refusal(p, result);
        return *is_refused ? ok_status() : status_of(result, "cublasLtMatmul");
      },
      &timed));
  if (timed.fastest < 0) return ok_status();
  plan->choice = candidates[static_cast<size_t>(timed.fastest)];
  choices().add(name_of_problem(key), plan->choice.algorithm);
  report_times(p, num_found, timed);
  return ok_status();
}

Status choose_algorithm(const MatmulProblem& p, Plan* plan) {
  const Key key = key_of(p);
  const lt::Algorithm* const chosen = choices().find(name_of_problem(key));
  const int num_asked = chosen != nullptr || times_candidates ? kMostCandidates : 1;
  Candidates candidates;
  int num_found = 0;
  MTL_RETURN_IF_ERROR(find_candidates(p, plan, num_asked, &candidates, &num_found));
  plan->choice = candidates[0];
  if (chosen != nullptr) {
    MTL_RETURN_IF_ERROR(find_chosen(candidates, num_found, *chosen, &plan->choice));
  } else if (times_candidates && num_found > 1) {
    MTL_RETURN_IF_ERROR(choose_by_time(p, candidates, num_found, key, plan));
  }
  plan->is_offered = num_found > 0 && plan->choice.status == lt::kSuccess;
  if (num_found > 0) plan->status = plan->choice.status;
  return ok_status();
}

Status not_offered(const MatmulProblem& p) {
  return error_status("MTL_UNSUPPORTED",
                      "matmul: cuBLASLt has no deterministic algorithm for [%lld, %lld, %lld] = [%lld, %lld]%s times "
                      "[%lld, %lld]%s of %s into %s",
                      static_cast<long long>(p.batch), static_cast<long long>(p.rows), static_cast<long long>(p.columns),
                      static_cast<long long>(p.rows), static_cast<long long>(p.inner), p.transpose_left ? " transposed" : "",
                      static_cast<long long>(p.inner), static_cast<long long>(p.columns),
                      p.transpose_right ? " transposed" : "", name_of(p.input_dtype), name_of(p.output_dtype));
}

void destroy(const Plan& plan) {
  if (plan.description != nullptr) functions.cublasLtMatmulDescDestroy(plan.description);
  for (const lt::Layout layout : {plan.a, plan.b, plan.d}) {
    if (layout != nullptr) functions.cublasLtMatrixLayoutDestroy(layout);
  }
}

Status fill_plan(const MatmulProblem& p, Plan* plan) {
  MTL_RETURN_IF_ERROR(make_description(p, plan));
  // rows and columns are in the library's order, the contiguous dimension first
  MTL_RETURN_IF_ERROR(p.transpose_right ? make_layout(p, p.input_dtype, p.inner, p.columns, &plan->a)
                                        : make_layout(p, p.input_dtype, p.columns, p.inner, &plan->a));
  MTL_RETURN_IF_ERROR(p.transpose_left ? make_layout(p, p.input_dtype, p.rows, p.inner, &plan->b)
                                       : make_layout(p, p.input_dtype, p.inner, p.rows, &plan->b));
  MTL_RETURN_IF_ERROR(make_layout(p, p.output_dtype, p.columns, p.rows, &plan->d));
  return choose_algorithm(p, plan);
}

// Returns the plan for a matmul. Creates it when the matmul first runs.
Status plan_of(const MatmulProblem& problem, Plan** plan) {
  const Key key = key_of(problem);
  const auto found = plans().find(key);
  if (found != plans().end()) {
    *plan = &found->second;
    return ok_status();
  }
  Plan made;
  const Status status = fill_plan(problem, &made);
  if (!status.ok()) {
    report_plan(problem, made, "planning");
    destroy(made);
    return status;
  }
  report_plan(problem, made, "planning");
  *plan = &plans().emplace(key, made).first->second;
  return ok_status();
}

}  // namespace

Status load_cublaslt(const char* candidates, bool allow_tf32) {
  is_tf32_allowed = allow_tf32;
  if (functions.cublasLtMatmul != nullptr) return ok_status();
  std::string tried, rest = candidates;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string name = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    // the library is never closed, because it keeps state for the lifetime of the process
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      const char* reason = dlerror();
      tried += "\n    " + (reason == nullptr ? name : std::string(reason));
      continue;
    }
    if (const char* missing = resolve(library)) {
      functions = {};
      tried += "\n    " + name + ": has no " + missing;
      continue;
    }
    path = real_path(library, name);
    return ok_status();
  }
  return error_status("MTL_CUBLASLT", "cuBLASLt was not found; tried:%s", tried.c_str());
}

Status open_cublaslt() {
  if (handle == nullptr) MTL_RETURN_IF_LT_ERROR(cublasLtCreate, &handle);
  if (workspace == nullptr) MTL_RETURN_IF_CUDA_ERROR(cudaMalloc(&workspace, kWorkspaceBytes));
  return ok_status();
}

const char* cublaslt_path() { return path.c_str(); }
uint64_t cublaslt_version() { return functions.cublasLtGetVersion == nullptr ? 0 : functions.cublasLtGetVersion(); }

Status set_matmul_choices(const char* lines, bool times_others) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kTiming));
  const std::lock_guard<std::mutex> lock(mutex);
  MTL_RETURN_IF_ERROR(choices().set(lines));
  times_candidates = times_others;
  for (const auto& [key, plan] : plans()) destroy(plan);
  plans().clear();
  return ok_status();
}

const char* matmul_choices() {
  static thread_local std::string lines;
  const std::lock_guard<std::mutex> lock(mutex);
  lines = choices().lines();
  return lines.c_str();
}

Status cublaslt_matmul(const MatmulProblem& problem) {
  bool is_offered = false;
  MTL_RETURN_IF_ERROR(cublaslt_matmul_if_offered(problem, &is_offered));
  return is_offered ? ok_status() : not_offered(problem);
}

Status cublaslt_matmul_if_offered(const MatmulProblem& problem, bool* is_offered) {
  MTL_RETURN_IF_ERROR(use_device());
  *is_offered = false;
  if (!takes_vectors(problem) || (problem.fused != FusedWith::kNothing && !fuses(problem.fused, gpu_properties()))) return ok_status();
  const std::lock_guard<std::mutex> lock(mutex);
  Plan* plan = nullptr;
  MTL_RETURN_IF_ERROR(plan_of(problem, &plan));
  if (!plan->is_offered) return ok_status();
  MTL_RETURN_IF_ERROR(describe_pointers(problem, *plan));
  const int result = enqueue(problem, *plan, plan->choice.algorithm);
  // an algorithm from the heuristic may still be rejected, before anything is enqueued
  plan->is_offered = !is_refusal(problem, result);
  if (!plan->is_offered) {
    plan->status = result;
    report_plan(problem, *plan, "the matmul");
  }
  *is_offered = plan->is_offered;
  return plan->is_offered ? status_of(result, "cublasLtMatmul") : ok_status();
}

}  // namespace mtl::cuda
