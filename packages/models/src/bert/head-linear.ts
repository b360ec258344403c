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

/** Weight [outputs, inputs] and bias [outputs] replicated on every rank. */
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
