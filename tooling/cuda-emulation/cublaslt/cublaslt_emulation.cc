// An emulation of cuBLASLt with plain loops, for the functions that this project calls. Parameters and
// conventions follow NVIDIA's documentation. With the emulation, tests can check layouts, transpositions,
// strides, epilogues and attributes without the library. Calls that the library would reject are also
// rejected here.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "backends/cuda/cublaslt/cublaslt_api.h"
#include "emulation/numbers.h"
#include "emulation/stream.h"

namespace mtl::cuda::lt {

struct DescriptionOpaque {
  int32_t compute_type = 0, scale_type = 0, transpose_a = kNone, transpose_b = kNone, bias_type = -1;
  Epilogue epilogue = Epilogue::kDefault;
  const void* bias = nullptr;
  const void* auxiliary = nullptr;
  int64_t auxiliary_stride = 0;
};

// Column-major: element (row, column) is at index `row + column * stride`.
struct LayoutOpaque {
  int32_t type;
  uint64_t rows, columns;
  int64_t stride;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;
};

struct PreferenceOpaque {
  uint64_t max_workspace_bytes = 0;
  uint32_t reduction_schemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

struct HandleOpaque {};

namespace {

double get(const void* data, int32_t type, int64_t index) {
  if (type == kReal32) return static_cast<const float*>(data)[index];
  if (type == kBReal16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
  return __half2float(static_cast<const __half*>(data)[index]);
}

void set(void* data, int32_t type, int64_t index, double value) {
  const float rounded = static_cast<float>(value);
  if (type == kReal32) static_cast<float*>(data)[index] = rounded;
  if (type == kBReal16) static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(rounded);
  if (type == kReal16) static_cast<__half*>(data)[index] = __float2half_rn(rounded);
}

// Returns an operand's element in the precision of tensor cores: in TF32 mode, float32 keeps only the first
// 10 bits of its mantissa.
double factor(const void* data, int32_t type, int64_t index, int32_t compute_type) {
  const double value = get(data, type, index);
  if (type != kReal32 || compute_type != kCompute32FastTf32 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

template <typename T>
int read(T* to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return kInvalidValue;
  std::memcpy(to, value, sizeof(T));
  return kSuccess;
}

// Checks the documented conditions for the auxiliary matrix, among them: its row stride is a multiple of 8
// elements, and it is 16-byte aligned.
bool takes_auxiliary(const DescriptionOpaque& description, const LayoutOpaque& d) {
  return d.batch_count == 1 && description.auxiliary_stride % 8 == 0 &&
         description.auxiliary_stride >= static_cast<int64_t>(d.rows) &&
         reinterpret_cast<uintptr_t>(description.auxiliary) % 16 == 0;
}

const double kSqrt2OverPi = std::sqrt(2.0 / std::acos(-1.0));

// cuBLASLt's GELU is the tanh approximation.
double gelu(double z) { return 0.5 * z * (1.0 + std::tanh(kSqrt2OverPi * (z + 0.044715 * z * z * z))); }

double gelu_derivative(double z) {
  const double t = std::tanh(kSqrt2OverPi * (z + 0.044715 * z * z * z));
  return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * kSqrt2OverPi * (1.0 + 3.0 * 0.044715 * z * z);
}

// Returns true if the documentation's table of types for float32 accumulation lists this combination.
bool is_supported(const DescriptionOpaque& description, const LayoutOpaque& a, const LayoutOpaque& b,
                  const LayoutOpaque& d) {
  if (description.scale_type != kReal32 || a.type != b.type) return false;
  if (a.type == kReal32 && d.type != kReal32) return false;
  if (a.type != kReal32 && d.type != a.type && d.type != kReal32) return false;
  switch (description.epilogue) {
    case Epilogue::kDefault:
      return true;
    case Epilogue::kBias:
      return description.bias_type == d.type;
    case Epilogue::kBiasGradientB:
      return d.batch_count == 1 && description.bias_type == d.type;
    case Epilogue::kGeluAuxiliaryBias:
      return description.bias_type == d.type && takes_auxiliary(description, d);
    case Epilogue::kGeluGradient:
      return takes_auxiliary(description, d);
    default:
      return false;
  }
}

bool fits(const DescriptionOpaque& description, const LayoutOpaque& a, const LayoutOpaque& b, const LayoutOpaque& c,
          const LayoutOpaque& d) {
  const bool ta = description.transpose_a == kTranspose, tb = description.transpose_b == kTranspose;
  const uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
  const uint64_t kb = tb ? b.columns : b.rows, n = tb ? b.rows : b.columns;
  if (k != kb || d.rows != m || d.columns != n || c.rows != m || c.columns != n) return false;
  for (const LayoutOpaque* layout : {&a, &b, &c, &d}) {
    if (layout->stride < static_cast<int64_t>(layout->rows) || layout->batch_count != d.batch_count) return false;
  }
  return true;
}

}  // namespace
}  // namespace mtl::cuda::lt

using namespace mtl::cuda::lt;

#pragma GCC visibility push(default)
extern "C" {

size_t cublasLtGetVersion() { return 130000; }
int cublasLtCreate(Handle* handle) { return *handle = new HandleOpaque(), kSuccess; }

int cublasLtMatmulDescCreate(Description* description, int32_t compute_type, int32_t scale_type) {
  *description = new DescriptionOpaque();
  (*description)->compute_type = compute_type;
  (*description)->scale_type = scale_type;
  return compute_type == kCompute32 || compute_type == kCompute32FastTf32 ? kSuccess : kInvalidValue;
}
int cublasLtMatmulDescDestroy(Description description) {
  delete description;
  return kSuccess;
}
int cublasLtMatmulDescSetAttribute(Description description, DescriptionAttribute attribute, const void* value,
                                   size_t bytes) {
  switch (attribute) {
    case DescriptionAttribute::kTransposeA:
      return read(&description->transpose_a, value, bytes);
    case DescriptionAttribute::kTransposeB:
      return read(&description->transpose_b, value, bytes);
    case DescriptionAttribute::kEpilogue:
      return read(&description->epilogue, value, bytes);
    case DescriptionAttribute::kBiasPointer:
      return read(&description->bias, value, bytes);
    case DescriptionAttribute::kBiasType:
      return read(&description->bias_type, value, bytes);
    case DescriptionAttribute::kAuxiliaryPointer:
      return read(&description->auxiliary, value, bytes);
    case DescriptionAttribute::kAuxiliaryStride:
      return read(&description->auxiliary_stride, value, bytes);
    default:
      return kInvalidValue;
  }
}

int cublasLtMatrixLayoutCreate(Layout* layout, int32_t type, uint64_t rows, uint64_t columns, int64_t stride) {
  *layout = new LayoutOpaque{type, rows, columns, stride};
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return kSuccess;
}
int cublasLtMatrixLayoutSetAttribute(Layout layout, LayoutAttribute attribute, const void* value, size_t bytes) {
  if (attribute == LayoutAttribute::kBatchCount) return read(&layout->batch_count, value, bytes);
  if (attribute == LayoutAttribute::kBatchStride) return read(&layout->batch_stride, value, bytes);
  return kInvalidValue;
}

int cublasLtMatmulPreferenceCreate(Preference* preference) { return *preference = new PreferenceOpaque(), kSuccess; }
int cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return kSuccess;
}
int cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute, const void* value,
                                         size_t bytes) {
  switch (attribute) {
    case PreferenceAttribute::kMaxWorkspaceBytes:
      return read(&preference->max_workspace_bytes, value, bytes);
    case PreferenceAttribute::kReductionSchemes:
      return read(&preference->reduction_schemes, value, bytes);
    case PreferenceAttribute::kAlignmentA:
    case PreferenceAttribute::kAlignmentB:
    case PreferenceAttribute::kAlignmentC:
    case PreferenceAttribute::kAlignmentD:
      return read(&preference->alignments[static_cast<int>(attribute) - static_cast<int>(PreferenceAttribute::kAlignmentA)],
                  value, bytes);
  }
  return kInvalidValue;
}

// Returns the time in milliseconds of each candidate algorithm for a matmul, in the library's order. Tests
// set the times in MTL_EMULATION_MATMUL_MS, separated by commas. Without this variable there is one
// candidate.
static const std::vector<double>& times_of_candidates() {
  static const std::vector<double>* const all = [] {
    auto* times = new std::vector<double>();
    const char* const given = std::getenv("MTL_EMULATION_MATMUL_MS");
    std::istringstream list(given == nullptr ? "0" : given);
    for (std::string each; std::getline(list, each, ',');) times->push_back(std::atof(each.c_str()));
    return times;
  }();
  return *all;
}

// The position of the candidate's index in an algorithm's data. The earlier entries are the alignments for
// which the algorithm was selected. cublasLtMatmul compares the caller's pointers with them.
constexpr int kCandidate = 4;
// Candidate n splits each sum into n + 1 parts, which need workspace. As on a GPU, the results of candidates
// differ in the last bits.
static uint64_t parts_of(const Algorithm& algorithm) { return algorithm.data[kCandidate] + 1; }
static size_t workspace_of(uint64_t candidate) { return candidate << 20; }

int cublasLtMatmulAlgoGetHeuristic(Handle, Description description, Layout a, Layout b, Layout c, Layout d,
                                   Preference preference, int num_asked, Choice* choices, int* num_found) {
  if (num_asked < 1 || !fits(*description, *a, *b, *c, *d)) return kInvalidValue;
  *num_found = 0;
  // a test can set the status that every matmul with an epilogue returns, to simulate a library that supports
  // no epilogues
  static const char* const refusal = std::getenv("MTL_EMULATION_EPILOGUE_STATUS");
  if (refusal != nullptr && description->epilogue != Epilogue::kDefault) return std::atoi(refusal);
  if (!is_supported(*description, *a, *b, *d)) return kUnsupported;
  const auto num_candidates = static_cast<uint64_t>(times_of_candidates().size());
  for (uint64_t candidate = 0; candidate < num_candidates && *num_found < num_asked; ++candidate) {
    if (workspace_of(candidate) > preference->max_workspace_bytes) continue;
    Choice& choice = choices[(*num_found)++];
    choice = {};
    choice.workspace_bytes = workspace_of(candidate);
    for (int matrix = 0; matrix < 4; ++matrix) choice.algorithm.data[matrix] = preference->alignments[matrix];
    choice.algorithm.data[kCandidate] = candidate;
  }
  return kSuccess;
}

// Applies an epilogue to an element of the result, including the additional output.
static double finished(const DescriptionOpaque& description, int32_t output_type, int64_t row, int64_t column, double value) {
  const bool has_bias = description.epilogue == Epilogue::kBias || description.epilogue == Epilogue::kGeluAuxiliaryBias;
  if (has_bias) value += get(description.bias, description.bias_type, row);
  const int64_t at = row + column * description.auxiliary_stride;
  if (description.epilogue == Epilogue::kGeluAuxiliaryBias) {
    set(const_cast<void*>(description.auxiliary), output_type, at, value);
    return gelu(value);
  }
  if (description.epilogue == Epilogue::kGeluGradient) {
    return value * gelu_derivative(get(description.auxiliary, output_type, at));
  }
  return value;
}

// Writes the sums of B over K, one for each column of D, to the bias gradient.
static void write_bias_gradient(const DescriptionOpaque& description, const LayoutOpaque& b, const void* values) {
  const bool transposed = description.transpose_b == kTranspose;
  const int64_t columns = static_cast<int64_t>(transposed ? b.rows : b.columns);
  const int64_t inner = static_cast<int64_t>(transposed ? b.columns : b.rows);
  for (int64_t column = 0; column < columns; ++column) {
    double sum = 0.0;
    for (int64_t k = 0; k < inner; ++k) {
      sum += get(values, b.type, transposed ? column + k * b.stride : k + column * b.stride);
    }
    set(const_cast<void*>(description.bias), description.bias_type, column, sum);
  }
}

// An enqueued matmul, with copies of its descriptions, because the caller may change the originals before the
// matmul runs.
struct Matmul {
  DescriptionOpaque description;
  LayoutOpaque layout_a, layout_b, layout_c, layout_d;
  const void *a, *b, *c;
  void* d;
  float scale, keep;
  int64_t num_parts;  // parts that each sum over the inner dimension is split into
};

// The running sum for one element of a matmul's result. In float32, for which there are no matrix units, it
// is a sequence of fused multiply-adds. For all other types, as in matrix units, the terms of one step are
// added exactly, and toward_zero rounds the sum after every step.
class RunningSum {
 public:
  explicit RunningSum(bool has_matrix_units) : has_matrix_units_(has_matrix_units) {}
  void add(double a, double b) {
    if (!has_matrix_units_) {
      sum_ = std::fma(static_cast<float>(a), static_cast<float>(b), sum_);
      return;
    }
    step_ += a * b;
    if (++num_terms_ % kTermsOfStep == 0) finish_step();
  }
  float total() {
    finish_step();
    return sum_;
  }

 private:
  static constexpr int kTermsOfStep = 16;
  void finish_step() {
    if (step_ != 0.0) sum_ = toward_zero(sum_ + step_);
    step_ = 0.0;
  }
  const bool has_matrix_units_;
  float sum_ = 0.0f;
  double step_ = 0.0;
  int64_t num_terms_ = 0;
};

static void compute(const Matmul& p) {
  if (p.description.epilogue == Epilogue::kBiasGradientB) write_bias_gradient(p.description, p.layout_b, p.b);
  const bool ta = p.description.transpose_a == kTranspose, tb = p.description.transpose_b == kTranspose;
  const int64_t inner = static_cast<int64_t>(ta ? p.layout_a.rows : p.layout_a.columns);
  for (int64_t batch = 0; batch < p.layout_d.batch_count; ++batch) {
    for (int64_t column = 0; column < static_cast<int64_t>(p.layout_d.columns); ++column) {
      for (int64_t row = 0; row < static_cast<int64_t>(p.layout_d.rows); ++row) {
        const int32_t type = p.description.compute_type;
        float total = 0.0f;
        for (int64_t part = 0; part < p.num_parts; ++part) {
          RunningSum sum(p.layout_a.type != kReal32 || type == kCompute32FastTf32);
          for (int64_t k = inner * part / p.num_parts; k < inner * (part + 1) / p.num_parts; ++k) {
            const int64_t at_a = ta ? k + row * p.layout_a.stride : row + k * p.layout_a.stride;
            const int64_t at_b = tb ? column + k * p.layout_b.stride : k + column * p.layout_b.stride;
            sum.add(factor(p.a, p.layout_a.type, batch * p.layout_a.batch_stride + at_a, type),
                    factor(p.b, p.layout_b.type, batch * p.layout_b.batch_stride + at_b, type));
          }
          total += sum.total();
        }
        const int64_t at = batch * p.layout_d.batch_stride + row + column * p.layout_d.stride;
        double value = p.scale * total;
        // if the factor of C is 0, the library does not read C, which may contain NaN
        if (p.keep != 0.0f) value += p.keep * get(p.c, p.layout_c.type, at);
        set(p.d, p.layout_d.type, at, finished(p.description, p.layout_d.type, row, column, value));
      }
    }
  }
}

int cublasLtMatmul(Handle handle, Description description, const void* alpha, const void* a, Layout layout_a,
                   const void* b, Layout layout_b, const void* beta, const void* c, Layout layout_c, void* d,
                   Layout layout_d, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   cudaStream_t stream) {
  if (handle == nullptr || workspace == nullptr || stream == nullptr) return kInvalidValue;
  if (!fits(*description, *layout_a, *layout_b, *layout_c, *layout_d)) return kInvalidValue;
  const void* const matrices[] = {a, b, c, d};
  for (int matrix = 0; matrix < 4; ++matrix) {
    const uint64_t alignment = algorithm->data[matrix];
    if (alignment == 0 || reinterpret_cast<uintptr_t>(matrices[matrix]) % alignment != 0) return kInvalidValue;
  }
  const uint64_t candidate = algorithm->data[kCandidate];
  if (candidate >= times_of_candidates().size() || workspace_bytes < workspace_of(candidate)) return kInvalidValue;
  if (!is_supported(*description, *layout_a, *layout_b, *layout_d)) return kUnsupported;
  // kernels read the bias 16 bytes at a time, but preferences have no attribute for the bias's alignment; on
  // a GPU, a misaligned address makes the device unusable for this process
  if (reinterpret_cast<uintptr_t>(description->bias) % 16 != 0) return kExecutionFailed;
  // cuBLASLt may reject an algorithm although its heuristic returned the algorithm. To test that callers
  // handle this, one combination of epilogue and type is rejected here
  if (description->epilogue == Epilogue::kBiasGradientB && layout_a->type == kReal16) return kUnsupported;
  const Matmul matmul = {*description, *layout_a, *layout_b, *layout_c, *layout_d, a, b, c, d,
                         *static_cast<const float*>(alpha), *static_cast<const float*>(beta),
                         static_cast<int64_t>(parts_of(*algorithm))};
  static const bool is_idle = std::getenv("MTL_EMULATION_IDLE") != nullptr;
  const double milliseconds = times_of_candidates()[candidate];
  mtl::emulation::enqueue(stream, [matmul, stream, milliseconds] {
    if (!is_idle) compute(matmul);
    stream->declared_ms += milliseconds;
    return cudaSuccess;
  });
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
