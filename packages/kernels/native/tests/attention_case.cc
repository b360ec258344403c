#include "tests/attention_case.h"

#include <cmath>
#include <cstdio>

namespace mtl::tests {

std::string name_of_case(const AttentionCase& one, DType dtype) {
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  char text[240];
  std::snprintf(text, sizeof text,
                "[%lld, %lld, %lld, %lld and %lld] in groups of %lld %s%s%s%s%s window %lld, from %lld and %lld%s, cap %g",
                number(one.sequence), number(one.batch), number(one.heads), number(one.head_size),
                number(one.size_of_values()), number(one.members), name_of(dtype), one.causal ? " causal" : "",
                one.documents ? " documents" : "", one.padding ? " padding" : "", one.dropout > 0 ? " dropout" : "",
                number(one.window), number(one.first_query), number(one.first_key), one.exact ? ", exact" : "", one.soft_cap);
  return text;
}

AttentionTensors::AttentionTensors(const AttentionCase& one, DType dtype)
    : qkv(dtype, one.projection()),
      output(one.exact ? DType::kFloat32 : dtype, {one.sequence, one.batch, one.heads, one.size_of_values()}),
      log_sum_exp(DType::kFloat32, {one.batch, one.heads, one.sequence}),
      output_gradient(dtype, {one.sequence, one.batch, one.heads, one.size_of_values()}),
      qkv_gradient(one.exact ? DType::kFloat32 : dtype, one.projection()),
      row_sums(DType::kFloat32, {one.batch, one.heads, one.sequence}),
      key_start(DType::kInt32, {one.batch, one.sequence}),
      key_mask(DType::kUint8, {one.batch, one.sequence}),
      samples(DType::kInt64, {one.batch}),
      first_keys(DType::kInt32, {one.batch, one.sequence}) {
  qkv.fill(1, 1.5);
  output_gradient.fill(2, 1.0);
  if (one.exact) qkv_gradient.fill(3, 1.0);
  for (int64_t b = 0; b < one.batch; ++b) {
    samples.set(b, static_cast<double>((int64_t{1} << 33) + 5 * b));
    for (int64_t s = 0; s < one.sequence; ++s) {
      // documents of 37 or 90 positions; occasionally a query without visible keys, and a start before the
      // first key
      const int64_t length = b % 2 == 0 ? 37 : 90, position = one.first_query + s, start = position / length * length;
      key_start.set(b * one.sequence + s, b == 0 && s == 20 ? 1000000 : start == 0 ? -3 : static_cast<double>(start));
      // the last sample is all padding, the others end early (a tile or more is masked) and have a gap
      key_mask.set(b * one.sequence + s, b + 1 < one.batch && s % 11 != 7 && s < one.sequence - 70 * b - 3 ? 1 : 0);
    }
  }
}

AttentionCall call_of(const AttentionCase& one, const AttentionTensors& tensors) {
  using Op = AttentionBackward;
  AttentionCall call = plain_attention_call(one.scale > 0 ? one.scale : 1.0 / std::sqrt(static_cast<double>(one.head_size)));
  if (one.value_size == 0) {
    call.set_projections(tensors.qkv.view(), tensors.qkv_gradient.view());
  } else {
    call.set_operands(unequal_parts_of(tensors.qkv.view(), one.members, one.head_size),
                      unequal_parts_of(tensors.qkv_gradient.view(), one.members, one.head_size));
  }
  call.output = tensors.output.view();
  call[Op::kRowSums] = tensors.row_sums.view();
  call[Op::kOutputGradient] = tensors.output_gradient.view();
  call[Op::kLogSumExp] = tensors.log_sum_exp.view();
  if (one.documents) call[Op::kKeyStart] = tensors.key_start.view();
  if (one.padding) call[Op::kKeyMask] = tensors.key_mask.view();
  if (one.dropout > 0) call[Op::kSamples] = tensors.samples.view();
  call[Op::kCausal] = one.causal ? 1 : 0;
  call[Op::kWindowSize] = static_cast<double>(one.window);
  call[Op::kFirstQuery] = static_cast<double>(one.first_query);
  call[Op::kFirstKey] = static_cast<double>(one.first_key);
  call[Op::kSoftCap] = one.soft_cap;
  call[Op::kDropoutProbability] = one.dropout;
  call[Op::kAccumulate] = one.exact ? 1 : 0;
  call[Op::kKeyLow] = 7, call[Op::kKeyHigh] = 0x80000001u, call[Op::kHeadOffset] = 4;
  return call;
}

AttentionTensors reference_of(const AttentionCase& one, DType dtype) {
  AttentionTensors tensors(one, dtype);
  tensors.output = HostTensor(DType::kFloat32, {one.sequence, one.batch, one.heads, one.size_of_values()});
  if (!one.exact) tensors.qkv_gradient = HostTensor(DType::kFloat32, one.projection());
  call_of(one, tensors).run_on_reference();
  return tensors;
}

}  // namespace mtl::tests
