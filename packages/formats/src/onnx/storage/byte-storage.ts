import { int } from '../graph/attributes.js';
import type { GraphBuilder, StoredTensor, Value } from '../graph/graph-builder.js';
import { addBias } from './float-storage.js';
import type { WeightTensor } from './model-weights.js';
import type { LinearLayer, Storage } from './storage.js';

/** The byte that stands for 0. */
const zero = 128;

/** A matrix [O, I] in bytes, transposed: [I, O], and the scale of each of its columns. */
interface ByteMatrix {
  readonly values: StoredTensor;
  readonly scales: StoredTensor;
}

/**
 * Returns a matrix in bytes u, where a weight of row o is about scale[o] * (u - 128): the largest magnitude
 * of a row becomes 127. The bytes have no sign: products of signed and unsigned bytes are saturated to 16
 * bits by CPUs without VNNI, which changes results.
 *
 * Memory: a byte for each weight of the matrix, since `MatMulInteger` reads it transposed.
 */
export function storeBytes({ name, shape, read }: WeightTensor): ByteMatrix {
  const [outputs, inputs] = shape as [number, number];
  let known: Float32Array | undefined;
  const quantize = async (store: (row: Float32Array, index: number, scale: number) => void) => {
    const scales = new Float32Array(outputs);
    let output = 0;
    for await (const values of read(inputs)) {
      for (let start = 0; start < values.length; start += inputs, output++) {
        const row = values.subarray(start, start + inputs);
        scales[output] = rowScale(row);
        store(row, output, scales[output]!);
      }
    }
    known = scales;
    return scales;
  };
  return {
    values: {
      name: `${name}.quantized`,
      type: 'UINT8',
      shape: [inputs, outputs],
      read: async function* () {
        const bytes = new Uint8Array(inputs * outputs);
        await quantize((row, output, scale) => {
          for (let input = 0, at = output; input < inputs; input++, at += outputs) {
            bytes[at] = zero + Math.round(row[input]! / scale);
          }
        });
        yield bytes;
      },
    },
    scales: {
      name: `${name}.scale`,
      type: 'FLOAT',
      shape: [outputs],
      read: async function* () {
        const scales = known ?? (await quantize(() => {}));
        yield new Uint8Array(scales.buffer);
      },
    },
  };
}

/** Returns the scale of a row; 1 for a row of zeros. */
function rowScale(row: Float32Array): number {
  let most = 0;
  for (let index = 0; index < row.length; index++) most = Math.max(most, Math.abs(row[index]!));
  return most === 0 ? 1 : most / 127;
}

/** Returns [N, O] of [N, I] and a matrix in bytes: the input is rounded to bytes, with one scale. */
export function multiplyBytes(graph: GraphBuilder, input: Value, { weight, bias }: LinearLayer): Value {
  const { values, scales } = storeBytes(weight);
  const matrix = graph.weight(values);
  const [bytes, scale, zeroPoint] = graph.ops('DynamicQuantizeLinear', [input], { numOutputs: 3 }) as [
    Value,
    Value,
    Value,
  ];
  const product = graph.op('MatMulInteger', [bytes, matrix, zeroPoint, graph.byte(zero)]);
  const factor = graph.op('Mul', [scale, graph.weight(scales)]);
  return addBias(graph, graph.op('Mul', [graph.cast(product, 'FLOAT'), factor]), bias);
}

/** Returns rows [N, H] of a table [V, H] in bytes, which are columns as it is stored. */
export function lookUpBytes(graph: GraphBuilder, ids: Value, table: WeightTensor): Value {
  const { values, scales } = storeBytes(table);
  const columns = graph.op('Gather', [graph.weight(values), ids], { attributes: { axis: int(1) } });
  const rows = graph.cast(graph.transpose(columns, [1, 0]), 'FLOAT');
  const scale = graph.op('Unsqueeze', [graph.op('Gather', [graph.weight(scales), ids]), graph.integers([1])]);
  return graph.op('Mul', [graph.op('Sub', [rows, graph.number(zero, 'FLOAT')]), scale]);
}

/** q8: matrices in bytes, and inputs that are rounded to bytes when the model runs. */
export const byteStorage: Storage = {
  activations: 'FLOAT',
  linear: multiplyBytes,
  lookUp: lookUpBytes,
  logits: multiplyBytes,
};
