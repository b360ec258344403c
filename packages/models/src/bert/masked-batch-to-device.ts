import type { Variable } from '@mtl/autograd';
import type { LossFactors } from '@mtl/pipeline';
import { neededTokens } from '../blocks/needed-tokens.js';
import { lossFactorOf } from '../blocks/stage-losses.js';
import { uploadConstant } from '../blocks/upload-constant.js';
import {
  type DeviceSequences,
  type DeviceSequencesOptions,
  releaseSequences,
  sequencesToDevice,
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
  /** float32 [M] and [B]: the factor of each loss in the total. */
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
  /** `lm_loss`, and with `sentenceOrderLabels` also `sop_loss`. */
  readonly lossFactors: LossFactors;
}

/**
 * Copies to the device what a stage needs of a batch of pretraining.
 *
 * @throws UsageError MTL_STAGE where the factor of a loss is missing, and when the first or the last stage
 *   gets a batch without tokens
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
      releaseSequences({ ...sequences, ...targets });
    },
  };
}

function targetsToDevice(
  batch: MaskedStageBatch,
  { lossFactors, device, packing, upload }: Omit<MaskedBatchOptions, 'isLast'>,
): MaskedTargets {
  const { batchSize: b, sentenceOrderLabels } = batch;
  const maskedPositions = neededTokens(batch.maskedPositions);
  const maskedWeights = neededTokens(batch.maskedWeights);
  const maskedFactor = lossFactorOf(lossFactors, 'lm_loss');
  const orderFactor = sentenceOrderLabels && lossFactorOf(lossFactors, 'sop_loss');
  const ids = (values: Int32Array): Variable =>
    uploadConstant(values, { shape: [values.length], dtype: 'int32', device, upload });
  const weights = (values: Float32Array): Variable =>
    uploadConstant(values, { shape: [values.length], dtype: 'float32', device, upload });
  const flat = (position: number): number => packing.starts[position % b]! + Math.floor(position / b);
  return {
    maskedPositions: ids(maskedPositions.map(flat)),
    maskedLabels: ids(neededTokens(batch.maskedLabels)),
    sentenceOrderLabels: sentenceOrderLabels && ids(sentenceOrderLabels),
    maskedWeights: weights(maskedWeights.map((weight) => weight * maskedFactor)),
    sentenceOrderWeights: sentenceOrderLabels && weights(new Float32Array(b).fill(orderFactor!)),
  };
}
