import type { Parameter } from '@mtl/autograd';
import { SafetensorsFile } from '@mtl/checkpoint';
import type { Tensor } from '@mtl/kernels';

/**
 * Float32 values of the tensors of a safetensors file whose names begin with `prefix`, by the rest of their
 * names.
 */
export async function readTensors(path: string, prefix: string): Promise<Map<string, Float32Array>> {
  const file = await SafetensorsFile.open(path);
  const tensors = new Map<string, Float32Array>();
  for (const tensor of [...file.tensors.keys()].filter((key) => key.startsWith(prefix))) {
    const bytes = Uint8Array.from(await file.read({ name: tensor }));
    tensors.set(tensor.slice(prefix.length), new Float32Array(bytes.buffer));
  }
  await file.close();
  return tensors;
}

/** The values padded with zeros, as the padded vocabulary is. */
export function padded({ size }: Parameter, values: Float32Array): Float32Array {
  const result = new Float32Array(size);
  result.set(values);
  return result;
}

/** One step of gradient descent. */
export function descend(parameter: Tensor, gradient: Tensor, rate: number): void {
  const values = parameter.read<'float32'>();
  const gradients = gradient.read<'float32'>();
  for (let index = 0; index < values.length; index++) values[index]! -= rate * gradients[index]!;
  parameter.write(values);
}
