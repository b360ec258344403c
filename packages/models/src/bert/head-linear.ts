import type { Parameter } from '@mtl/autograd';
import type { TensorParallel } from '@mtl/tensor-parallel';
import { replicatedParameter } from '../blocks/stage-parameters.js';
import type { BertModelConfiguration } from './bert-model-configuration.js';

export interface BertHeadOptions {
  readonly model: BertModelConfiguration;
  readonly tensorParallel: TensorParallel | undefined;
}

/** A dense layer of a head, or its norm. */
export interface LinearParameters {
  readonly weight: Parameter;
  readonly bias: Parameter;
}

/**
 * Rows that a head computes with are gathered and replicated: gradients of its parameters are never
 * partial sums, even where the layers shard the sequence.
 */
export function withoutSequenceParallel(
  tensorParallel: TensorParallel | undefined,
): TensorParallel | undefined {
  return tensorParallel && { ...tensorParallel, sequenceParallel: false };
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
    weight: replicatedParameter(`${name}.weight`, {
      globalShape: shape,
      initialization: { kind: 'normal', standardDeviation },
      tensorParallel,
    }),
    bias: replicatedParameter(`${name}.bias`, {
      globalShape: [shape[0]],
      initialization: { kind: 'zeros' },
      tensorParallel,
    }),
  };
}
