import type { WritableDtype } from '@mtl/formats';

/** The dtypes of weights in safetensors and PyTorch files, by their names in --dtype. */
export const floatDtypes: Readonly<Record<string, WritableDtype>> = {
  float32: 'F32',
  bfloat16: 'BF16',
  float16: 'F16',
};

/** Returns the dtype that `name` stands for in --dtype; undefined if `name` is undefined. */
export const findFloatDtype = (name: string | undefined): WritableDtype | undefined =>
  name === undefined ? undefined : floatDtypes[name];

/** Returns the name that stands for `dtype` in --dtype. */
export const nameOfDtype = (dtype: WritableDtype): string =>
  Object.keys(floatDtypes).find((name) => floatDtypes[name] === dtype)!;
