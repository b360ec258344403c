import type { WritableDtype } from '@mtl/formats';

/** The names that --dtype takes for weights in safetensors and PyTorch's files. */
export const floatDtypes: Readonly<Record<string, WritableDtype>> = {
  float32: 'F32',
  bfloat16: 'BF16',
  float16: 'F16',
};

/** Returns the dtype of a name; undefined without a name. */
export const findFloatDtype = (name: string | undefined): WritableDtype | undefined =>
  name === undefined ? undefined : floatDtypes[name];

/** Returns the name of a dtype. */
export const nameOfDtype = (dtype: WritableDtype): string =>
  Object.keys(floatDtypes).find((name) => floatDtypes[name] === dtype)!;
