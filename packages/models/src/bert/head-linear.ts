import type { Parameter } from '@mtl/autograd';
import type { TensorParallel } from '@mtl/tensor-parallel';
import { wholeParameter } from '../blocks/stage-parameters.js';
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
 * Rows that a head computes with are gathered, whole on every process: its parameters' gradients are never
 * parts, even where the layers cut the sequence.
 */
export function wholeSequences(tensorParallel: TensorParallel | undefined): TensorParallel | undefined {
  return tensorParallel && { ...tensorParallel, sequenceParallel: false };
}

/** Weight [outputs, inputs] and bias [outputs] that every process holds. */
export function headLinear(
  name: string,
  shape: readonly [outputs: number, inputs: number],
  options: BertHeadOptions,
): LinearParameters {
  const standardDeviation = options.model.initMethodStd;
  const tensorParallel = wholeSequences(options.tensorParallel);
  return {
    weight: wholeParameter(`${name}.weight`, {
      globalShape: shape,
      initialization: { kind: 'normal', standardDeviation },
      tensorParallel,
    }),
    bias: wholeParameter(`${name}.bias`, {
      globalShape: [shape[0]],
      initialization: { kind: 'zeros' },
      tensorParallel,
    }),
  };
}
