import type { Parameter } from '@mtl/autograd';
import { replicatedParameter, type TensorParallel } from '@mtl/tensor-parallel';
import { withoutSequenceParallel } from '../blocks/without-sequence-parallel.js';
import type { BertModelConfiguration } from './bert-model-configuration.js';

export interface BertHeadOptions {
  readonly model: BertModelConfiguration;
  readonly tensorParallel: TensorParallel | undefined;
}

/** A dense layer of a head. */
export interface LinearParameters {
  readonly weight: Parameter;
  readonly bias: Parameter;
}

/**
 * Weight [outputs, inputs] and bias [outputs] replicated on every rank. With as many outputs as inputs it is
 * a hidden layer, otherwise the output layer of a head.
 */
export function headLinear(
  name: string,
  shape: readonly [outputs: number, inputs: number],
  options: BertHeadOptions,
): LinearParameters {
  const standardDeviation = options.model.initMethodStd;
  const tensorParallel = withoutSequenceParallel(options.tensorParallel);
  return {
    weight: replicatedParameter({
      name: `${name}.weight`,
      globalShape: shape,
      matrices: shape[0] === shape[1] ? [shape.map((size) => ({ start: 0, end: size }))] : [],
      initialization: { kind: 'normal', standardDeviation },
      tensorParallel,
    }),
    bias: replicatedParameter({
      name: `${name}.bias`,
      globalShape: [shape[0]],
      initialization: { kind: 'zeros' },
      tensorParallel,
    }),
  };
}
