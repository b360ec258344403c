import { CheckpointError } from '@mtl/errors';
import { encodeFloats } from '../../huggingface/float-bytes.js';
import { int } from '../graph/attributes.js';
import type { FloatType } from '../graph/data-types.js';
import type { GraphBuilder, StoredTensor, Value } from '../graph/graph-builder.js';
import type { WeightTensor } from './model-weights.js';
import type { LinearLayer, Storage } from './storage.js';

/** The largest magnitude of FLOAT16. */
const mostOfFloat16 = 65_504;

/** Returns a parameter as floats. */
export function storeFloats({ name, shape, read }: WeightTensor, type: FloatType): StoredTensor {
  return {
    name: type === 'FLOAT' ? name : `${name}.${type.toLowerCase()}`,
    type,
    shape,
    read: async function* () {
      for await (const values of read(shape.at(-1)!)) {
        if (type === 'FLOAT16') checkRange(values, name);
        yield encodeFloats(values, type === 'FLOAT' ? 'F32' : 'F16');
      }
    },
  };
}

/** @throws CheckpointError MTL_NOT_FINITE */
function checkRange(values: Float32Array, name: string): void {
  for (let index = 0; index < values.length; index++) {
    if (Math.abs(values[index]!) <= mostOfFloat16) continue;
    throw new CheckpointError('MTL_NOT_FINITE', `the model to save: ${name} has the value ${values[index]}`, {
      expected: `at most ${mostOfFloat16}, the limit of fp16`,
      remedy: 'write the model as fp32, q8 or q4',
      exitCode: 2,
    });
  }
}

/** Adds a bias, if there is one. */
export function addBias(graph: GraphBuilder, value: Value, bias: WeightTensor | undefined): Value {
  if (bias === undefined) return value;
  return graph.op('Add', [value, graph.weight(storeFloats(bias, 'FLOAT'))]);
}

/** Stores matrices as floats, without transposing them, because `Gemm` can read a matrix [O, I]. */
export function floatStorage(type: FloatType): Storage {
  const linear = (graph: GraphBuilder, input: Value, { weight, bias }: LinearLayer): Value =>
    graph.op(
      'Gemm',
      [weight, bias]
        .flatMap((tensor) => (tensor === undefined ? [] : [graph.weight(storeFloats(tensor, type))]))
        .toSpliced(0, 0, input),
      { attributes: { transB: int(1) } },
    );
  return {
    activations: type,
    linear,
    lookUp: (graph, ids, table) => graph.op('Gather', [graph.weight(storeFloats(table, type)), ids]),
    logits: linear,
    experts: (graph, input, { logits, topK, activation, first, second }) => {
      const weights = [first, second].flatMap(({ weight, bias }) =>
        [weight, bias].map((tensor) => (tensor === undefined ? '' : graph.weight(storeFloats(tensor, type)))),
      );
      return graph.op('MoE', [input, logits, ...weights], {
        domain: 'com.microsoft',
        attributes: { ...activation, k: int(topK), normalize_routing_weights: int(1) },
      });
    },
  };
}
