import { countElements } from '@mtl/kernels';
import { int } from '../graph/attributes.js';
import type { GraphBuilder, StoredTensor, Value } from '../graph/graph-builder.js';
import { addBias } from './float-storage.js';
import type { WeightTensor } from './model-weights.js';
import { applyQuantizedExperts } from './quantized-experts.js';
import type { LinearLayer, Storage } from './storage.js';

/** The byte that stands for 0. */
const zero = 128;

/** A matrix that is stored as bytes, and the scales of its rows. */
interface ByteMatrix {
  readonly values: StoredTensor;
  readonly scales: StoredTensor;
}

/**
 * Quantizes a matrix [O, I] to bytes u, and transposes it to [I, O]. A weight of row o is about
 * `scale[o] * (u - 128)`. The scale maps the largest magnitude of the row to 127. The bytes are unsigned,
 * because CPUs without VNNI saturate products of signed and unsigned bytes to 16 bits, which would change
 * results.
 *
 * Needs one byte of memory for each weight of the matrix, because it must be transposed for `MatMulInteger`.
 */
export function storeBytes(weight: WeightTensor): ByteMatrix {
  const [outputs, inputs] = weight.shape as [number, number];
  return storeRows(weight, [inputs, outputs], async function* (rows) {
    const bytes = new Uint8Array(inputs * outputs);
    let output = 0;
    for await (const { values, scales } of rows) {
      scales.forEach((scale, row) => {
        for (let input = 0, at = output; input < inputs; input++, at += outputs) {
          bytes[at] = zero + Math.round(values[row * inputs + input]! / scale);
        }
        output += 1;
      });
    }
    yield bytes;
  });
}

/** Quantizes the matrices [E, O, I] of experts to bytes like `storeBytes`, but does not transpose them. */
export function storeExpertBytes(weight: WeightTensor): ByteMatrix {
  const inputs = weight.shape.at(-1)!;
  return storeRows(weight, weight.shape, async function* (rows) {
    for await (const { values, scales } of rows) {
      const bytes = new Uint8Array(values.length);
      for (let at = 0; at < values.length; at++) {
        bytes[at] = zero + Math.round(values[at]! / scales[Math.floor(at / inputs)]!);
      }
      yield bytes;
    }
  });
}

/** Some rows of a matrix, and the scale of each row. */
interface ScaledRows {
  readonly values: Float32Array;
  readonly scales: Float32Array;
}

/**
 * Returns a matrix that is stored as the bytes that `convert` makes from its rows. The scales become known,
 * and are kept, when the bytes have been read.
 */
function storeRows(
  { name, shape, read }: WeightTensor,
  storedShape: readonly number[],
  convert: (rows: AsyncIterable<ScaledRows>) => AsyncIterable<Uint8Array>,
): ByteMatrix {
  const [rowShape, inputs] = [shape.slice(0, -1), shape.at(-1)!];
  let known: Float32Array | undefined;
  async function* readRows(): AsyncGenerator<ScaledRows> {
    const all = new Float32Array(countElements(rowShape));
    let first = 0;
    for await (const values of read(inputs)) {
      const scales = all.subarray(first, first + values.length / inputs);
      for (let row = 0; row < scales.length; row++) {
        scales[row] = rowScale(values.subarray(row * inputs, (row + 1) * inputs));
      }
      yield { values, scales };
      first += scales.length;
    }
    known = all;
  }
  return {
    values: {
      name: `${name}.quantized`,
      type: 'UINT8',
      shape: storedShape,
      read: () => convert(readRows()),
    },
    scales: {
      name: `${name}.scale`,
      type: 'FLOAT',
      shape: rowShape,
      read: async function* () {
        if (known === undefined) for await (const _ of readRows());
        yield new Uint8Array(known!.buffer);
      },
    },
  };
}

/** Returns the scale of a row; 1 if all its values are zero. */
function rowScale(row: Float32Array): number {
  let most = 0;
  for (let index = 0; index < row.length; index++) most = Math.max(most, Math.abs(row[index]!));
  return most === 0 ? 1 : most / 127;
}

/**
 * Multiplies an input [N, I] by a matrix that is stored as bytes, and returns [N, O]. The input is rounded to
 * bytes that have one common scale.
 */
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

/**
 * Adds nodes that look up rows [N, H] in a table [V, H] that is stored as bytes. The table is stored
 * transposed, so its rows are columns.
 */
export function lookUpBytes(graph: GraphBuilder, ids: Value, table: WeightTensor): Value {
  const { values, scales } = storeBytes(table);
  const columns = graph.op('Gather', [graph.weight(values), ids], { attributes: { axis: int(1) } });
  const rows = graph.cast(graph.transpose(columns, [1, 0]), 'FLOAT');
  const scale = graph.op('Unsqueeze', [graph.op('Gather', [graph.weight(scales), ids]), graph.integers([1])]);
  return graph.op('Mul', [graph.op('Sub', [rows, graph.number(zero, 'FLOAT')]), scale]);
}

/** q8: matrices are stored as bytes, and inputs are rounded to bytes when the model runs. */
export const byteStorage: Storage = {
  activations: 'FLOAT',
  linear: multiplyBytes,
  lookUp: lookUpBytes,
  logits: multiplyBytes,
  experts: (graph, input, layers) =>
    applyQuantizedExperts(graph, input, { ...layers, bits: 8, quantize: storeExpertBytes }),
};
