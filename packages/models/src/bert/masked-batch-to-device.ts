import { Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import { neededTokens } from '../blocks/needed-tokens.js';
import {
  type DeviceSequences,
  type DeviceSequencesOptions,
  releaseSequences,
  sequencesToDevice,
  uploadConstant,
} from './device-sequences.js';
import type { MaskedStageBatch } from './masked-stage-batch.js';

// B samples of a micro-batch, S sequence, M room for masked tokens.

/** What the heads read of a batch, on the device. */
export interface MaskedTargets {
  /** int32 [M]: their rows among the packed tokens. */
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

/** A batch of pretraining on the device. */
export interface DeviceMaskedBatch extends DeviceSequences {
  /** On the last stage. */
  readonly targets: MaskedTargets | undefined;
}

export interface MaskedBatchOptions extends DeviceSequencesOptions {
  /** Whether the heads are here. */
  readonly isLast: boolean;
  readonly lossFactor: number;
  /** Needed with `sentenceOrderLabels`. */
  readonly sampleLossFactor?: number | undefined;
}

/**
 * Copies to the device what a stage needs of a batch of pretraining.
 *
 * @throws UsageError MTL_STAGE without `sampleLossFactor` where it is needed, and when the first or the last
 *   stage gets a batch without tokens
 */
export function maskedBatchToDevice(
  batch: MaskedStageBatch,
  { isLast, ...options }: MaskedBatchOptions,
): DeviceMaskedBatch {
  const { batchSize: numRows, sampleNumbers: rowNumbers } = batch;
  const targets = isLast ? targetsToDevice(batch, options) : undefined;
  const sequences = sequencesToDevice({ ...batch, numRows, rowNumbers }, options);
  return {
    ...sequences,
    targets,
    release: () => {
      const { weights, ...variables } = targets ?? {};
      weights?.dispose();
      releaseSequences({ ...sequences, ...variables });
    },
  };
}

function targetsToDevice(
  batch: MaskedStageBatch,
  { lossFactor, sampleLossFactor, device, packing, upload = Tensor.from }: Omit<MaskedBatchOptions, 'isLast'>,
): MaskedTargets {
  const { batchSize: b, sentenceOrderLabels } = batch;
  const maskedPositions = neededTokens(batch.maskedPositions);
  const maskedWeights = neededTokens(batch.maskedWeights);
  if (sentenceOrderLabels !== undefined && sampleLossFactor === undefined) {
    throw new UsageError('MTL_STAGE', 'a loss per sample (sentence order) without sampleLossFactor', {
      expected: 'sampleLossFactor: the loss scale over the samples of the global batch',
    });
  }
  const numMasked = maskedPositions.length;
  const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const ids = (values: Int32Array): Variable =>
    uploadConstant(values, { shape: [values.length], dtype: 'int32', device, upload });
  const factorsOfAll = new Float32Array(numMasked + (sentenceOrderLabels === undefined ? 0 : b));
  for (let index = 0; index < numMasked; index++) factorsOfAll[index] = maskedWeights[index]! * lossFactor;
  if (sampleLossFactor !== undefined) factorsOfAll.fill(sampleLossFactor, numMasked);
  const weights = upload(factorsOfAll, { shape: [factorsOfAll.length], dtype: 'float32', device });
  const flat = (position: number): number => packing.starts[position % b]! + Math.floor(position / b);
  return {
    maskedPositions: ids(maskedPositions.map(flat)),
    maskedLabels: ids(neededTokens(batch.maskedLabels)),
    sentenceOrderLabels: sentenceOrderLabels && ids(sentenceOrderLabels),
    weights,
    maskedWeights: constant(weights.rows(0, numMasked)),
    sentenceOrderWeights: sentenceOrderLabels && constant(weights.rows(numMasked, numMasked + b)),
  };
}
