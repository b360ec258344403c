import { readFileSync } from 'node:fs';
import { type DType, Tensor, type TypedArray } from '../../src/index.js';

const dtypeByCode: Readonly<Record<string, DType>> = {
  F64: 'float64',
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
  I32: 'int32',
  I64: 'int64',
  U8: 'uint8',
};

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/**
 * Reads tensors of a safetensors file by name, and creates them on the device on request. For fixtures:
 * trusts the file.
 */
export function readSafetensors(file: URL): (name: string) => Tensor {
  const bytes = readFileSync(file);
  const headerBytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + headerBytes)) as Record<string, Entry>;
  return (name) => {
    const entry = header[name];
    const dtype = entry && dtypeByCode[entry.dtype];
    if (entry === undefined || dtype === undefined) throw new Error(`fixture ${name} is missing`);
    const tensor = Tensor.empty({ shape: entry.shape, dtype });
    const [start, end] = entry.data_offsets;
    const data = new Uint8Array(bytes.subarray(8 + headerBytes + start, 8 + headerBytes + end));
    tensor.write(data as TypedArray);
    return tensor;
  };
}
