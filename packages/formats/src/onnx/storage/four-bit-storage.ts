import { refuseModel } from '../blocks/refusals.js';
import { int } from '../graph/attributes.js';
import type { StoredTensor } from '../graph/graph-builder.js';
import { lookUpBytes, multiplyBytes } from './byte-storage.js';
import { addBias } from './float-storage.js';
import type { WeightTensor } from './model-weights.js';
import { applyQuantizedExperts } from './quantized-experts.js';
import type { ExpertLayers, Storage } from './storage.js';

/** How many weights share a scale. */
const blockSize = 32;

/** The level that stands for 0. */
const zero = 8;

/** The most of a level. */
const highest = 15;

/**
 * Quantizes a matrix [O, I] to levels q of 4 bits, in blocks of 32 inputs. A weight is about `scale * (q -
 * 8)`. In each block, the value of largest magnitude has level 0, so its sign determines the sign of the
 * scale. A byte contains two levels; its low bits contain the level of an even input. If a row's length is
 * not a multiple of 32, zeros are added at its end.
 */
export function storeFourBits({ name, shape, read }: WeightTensor): {
  readonly values: StoredTensor;
  readonly scales: StoredTensor;
} {
  const [outputs, inputs] = shape as [number, number];
  const numBlocks = Math.ceil(inputs / blockSize);
  const scalesOfRows = (values: Float32Array): Float32Array => {
    const scales = new Float32Array((values.length / inputs) * numBlocks);
    for (let block = 0; block < scales.length; block++) scales[block] = blockScale(values, block, sizes);
    return scales;
  };
  const sizes = { inputs, numBlocks };
  return {
    values: {
      name: `${name}.quantized4`,
      type: 'UINT8',
      shape: [outputs, numBlocks, blockSize / 2],
      read: async function* () {
        for await (const values of read(inputs)) yield packLevels(values, scalesOfRows(values), sizes);
      },
    },
    scales: {
      name: `${name}.scale4`,
      type: 'FLOAT',
      shape: [outputs * numBlocks],
      read: async function* () {
        for await (const values of read(inputs)) yield new Uint8Array(scalesOfRows(values).buffer);
      },
    },
  };
}

interface RowSizes {
  readonly inputs: number;
  readonly numBlocks: number;
}

/** Returns the array index at which a block of a row begins, and the index after its last value. */
function blockRange(block: number, { inputs, numBlocks }: RowSizes): readonly [number, number] {
  const row = Math.floor(block / numBlocks);
  const start = (block % numBlocks) * blockSize;
  return [row * inputs + start, row * inputs + Math.min(start + blockSize, inputs)];
}

/**
 * Returns the scale with which the value of largest magnitude has level 0. Returns 1 if all values are zero.
 */
function blockScale(values: Float32Array, block: number, sizes: RowSizes): number {
  const [start, end] = blockRange(block, sizes);
  let extreme = 0;
  for (let index = start; index < end; index++) {
    if (Math.abs(values[index]!) > Math.abs(extreme)) extreme = values[index]!;
  }
  return extreme === 0 ? 1 : extreme / -zero;
}

function packLevels(values: Float32Array, scales: Float32Array, sizes: RowSizes): Uint8Array {
  const bytes = new Uint8Array((scales.length * blockSize) / 2).fill(zero | (zero << 4));
  scales.forEach((scale, block) => {
    const [start, end] = blockRange(block, sizes);
    for (let index = start; index < end; index++) {
      const level = Math.min(highest, Math.max(0, Math.round(values[index]! / scale) + zero));
      const at = (block * blockSize + index - start) >> 1;
      bytes[at] =
        (index - start) % 2 === 0 ? (bytes[at]! & 0xf0) | level : (bytes[at]! & 0x0f) | (level << 4);
    }
  });
  return bytes;
}

/**
 * q4: the matrices of layers are stored in 4 bits and multiplied by `MatMulNBits`. As in q8, the vocabulary's
 * tables are stored as bytes, because an error in such a table affects every token.
 */
export const fourBitStorage: Storage = {
  activations: 'FLOAT',
  linear: (graph, input, { weight, bias }) => {
    const [outputs, inputs] = weight.shape as [number, number];
    const { values, scales } = storeFourBits(weight);
    const product = graph.op('MatMulNBits', [input, graph.weight(values), graph.weight(scales)], {
      domain: 'com.microsoft',
      attributes: {
        K: int(inputs),
        N: int(outputs),
        bits: int(4),
        block_size: int(blockSize),
        // if a CPU has a kernel for it, inputs are rounded to 8 bits
        accuracy_level: int(4),
      },
    });
    return addBias(graph, product, bias);
  },
  lookUp: lookUpBytes,
  logits: multiplyBytes,
  experts: (graph, input, layers) => {
    checkWidths(layers);
    const quantized = { ...layers, bits: 4, blockSize, quantize: storeExpertLevels } as const;
    return applyQuantizedExperts(graph, input, quantized);
  },
};

/**
 * Checks that rows consist of complete blocks, and of more than one. `QMoE` reads only complete blocks, and
 * would interpret a row of a single block as a row without blocks.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE
 */
function checkWidths(layers: ExpertLayers): void {
  for (const layer of ['first', 'second'] as const) {
    const { name, shape } = layers[layer].weight;
    const width = shape.at(-1)!;
    if (width % blockSize === 0 && (layer === 'second' || width > blockSize)) continue;
    throw refuseModel(
      `q4 of experts whose rows have ${width} weights (${name})`,
      `rows of a multiple of ${blockSize}, and a hidden size of ${2 * blockSize} or more`,
      'write the model with --dtype q8',
    );
  }
}

/** Stores the matrices [E, O, I] of experts as levels of 4 bits. */
function storeExpertLevels(weight: WeightTensor): ReturnType<typeof storeFourBits> {
  const [count, outputs, inputs] = weight.shape as [number, number, number];
  const { values, scales } = storeFourBits({ ...weight, shape: [count * outputs, inputs] });
  return {
    values: { ...values, shape: [count, outputs, inputs / 2] },
    scales: { ...scales, shape: [count, outputs, inputs / blockSize] },
  };
}
