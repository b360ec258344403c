import type { TensorSource } from '@mtl/checkpoint';
import { decodeFloats } from '../huggingface/float-bytes.js';
import type { TensorType } from './tensor-types.js';
import type { GgufTensorSource } from './write-gguf-file.js';

/** Returns a tensor of a file, given its source in float32. */
export function makeGgufTensor({ name, shape, read }: TensorSource, type: TensorType): GgufTensorSource {
  return {
    name,
    shape,
    type,
    async *read() {
      yield decodeFloats(await read(), 'F32');
    },
  };
}
