import { Variable } from '@mtl/autograd';
import { type Device, type DType, Tensor, type TypedArray } from '@mtl/kernels';
import type { Upload } from '@mtl/pipeline';

/** Returns a constant on the device. */
export function uploadConstant(
  values: TypedArray,
  {
    upload = Tensor.from,
    ...options
  }: { shape: readonly number[]; dtype: DType; device: Device; upload?: Upload | undefined },
): Variable {
  return new Variable(upload(values, options), { requiresGradient: false });
}
