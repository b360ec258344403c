import { Variable } from '@mtl/autograd';
import type { MaskedTokenBatch } from '@mtl/data';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import {
  type DeviceSequences,
  type DeviceSequencesOptions,
  releaseSequences,
  sequencesToDevice,
  uploadConstant,
} from './device-sequences.js';

// B samples of a micro-batch, S sequence, M room for masked tokens.

/** A batch on the device. */
export interface DeviceMaskedBatch extends DeviceSequences {
  /** int32 [M]: where they lie among the packed tokens. */
  readonly maskedPositions: Variable;
  readonly maskedLabels: Variable;
  /** int32 [B] */
  readonly sentenceOrderLabels: Variable | undefined;
  /** float32 [M], or [M + B] with sentence order: the factor of each loss in the total. */
  readonly weights: Tensor;
  /** Views of `weights`. */
  readonly maskedWeights: Variable;
  readonly sentenceOrderWeights: Variable | undefined;
}

export interface MaskedBatchOptions extends DeviceSequencesOptions {
  readonly lossFactor: number;
  /** Needed with `sentenceOrderLabels`. */
  readonly sampleLossFactor?: number | undefined;
}

/**
 * Copies a batch to the device.
 *
 * @throws UsageError MTL_STAGE without `sampleLossFactor` where it is needed
 */
export function maskedBatchToDevice(
  batch: MaskedTokenBatch,
  { lossFactor, sampleLossFactor, ...sequences }: MaskedBatchOptions,
): DeviceMaskedBatch {
  const { batchSize: b, maskedPositions, sentenceOrderLabels } = batch;
  const { device, packing } = sequences;
  if (sentenceOrderLabels !== undefined && sampleLossFactor === undefined) {
    throw new UsageError('MTL_STAGE', 'a loss a sample (sentence order) without sampleLossFactor');
  }
  const numMasked = maskedPositions.length;
  const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const ids = (values: Int32Array): Variable =>
    uploadConstant(values, { shape: [values.length], dtype: 'int32', device });
  const factorsOfAll = new Float32Array(numMasked + (sentenceOrderLabels === undefined ? 0 : b));
  for (let index = 0; index < numMasked; index++)
    factorsOfAll[index] = batch.maskedWeights[index]! * lossFactor;
  if (sampleLossFactor !== undefined) factorsOfAll.fill(sampleLossFactor, numMasked);
  const weights = Tensor.from(factorsOfAll, { shape: [factorsOfAll.length], dtype: 'float32', device });
  const flat = (position: number): number => packing.starts[position % b]! + Math.floor(position / b);
  const variables = {
    ...sequencesToDevice({ ...batch, numRows: b, rowNumbers: batch.sampleNumbers }, sequences),
    maskedPositions: ids(maskedPositions.map(flat)),
    maskedLabels: ids(batch.maskedLabels),
    sentenceOrderLabels: sentenceOrderLabels && ids(sentenceOrderLabels),
    maskedWeights: constant(weights.rows(0, numMasked)),
    sentenceOrderWeights: sentenceOrderLabels && constant(weights.rows(numMasked, numMasked + b)),
  };
  return {
    ...variables,
    weights,
    release: () => {
      weights.dispose();
      releaseSequences(variables);
    },
  };
}
