import type { HuggingFaceOrigin, WritableDtype } from '@mtl/formats';

const dtypes: Readonly<Record<string, WritableDtype>> = { bfloat16: 'BF16', float16: 'F16' };

/** What the weights of a model were stored as where it came from; F32 where nothing says it. */
export function dtypeOfOrigin(origin: HuggingFaceOrigin | undefined): WritableDtype {
  const { dtype, torch_dtype: former } = origin?.config ?? {};
  return dtypes[String(dtype ?? former)] ?? 'F32';
}
