import type { Variable } from '@mtl/autograd';
import type { MaskedTokenBatch } from '@mtl/layout';
import type { LossFactors } from '@mtl/pipeline';
import { findLossFactor } from '../blocks/stage-losses.js';
import { uploadConstant } from '../blocks/upload-constant.js';
import { neededTokens } from '../stages/stage-call.js';
import {
  type DeviceSequences,
  type DeviceSequencesOptions,
  type PlacesOfRows,
  releaseSequences,
  sequencesToDevice,
} from './device-sequences.js';

/** The micro-batch fields that every stage of a BERT needs: for the packing, and the sample indices. */
export type BertBatchOutline = Pick<
  MaskedTokenBatch,
  'batchSize' | 'sequenceLength' | 'lengths' | 'sampleNumbers'
>;

/**
 * The batch for one stage. The first and the last stage of a pipeline need the tokens, whereas the stages
 * between them need only the outline.
 */
export type MaskedStageBatch = BertBatchOutline & Partial<MaskedTokenBatch>;

// In the shapes below, B is the number of samples in a micro-batch, S the sequence length and M the room for
// masked tokens among this rank's tokens.

/** The batch fields that the heads read, on the device. */
interface MaskedTargets {
  /** int32 [M]: the indices of the masked tokens among the packed tokens. */
  readonly maskedPositions: Variable;
  readonly maskedLabels: Variable;
  /** int32 [B] */
  readonly sentenceOrderLabels: Variable | undefined;
  /** float32 [M] and [B]: for each loss, its factor in the total loss. */
  readonly maskedWeights: Variable;
  readonly sentenceOrderWeights: Variable | undefined;
}

/** A pretraining batch on the device. */
export interface DeviceMaskedBatch extends DeviceSequences {
  /** The targets of the heads. Only the last stage has them. */
  readonly targets: MaskedTargets | undefined;
}

interface MaskedBatchOptions extends DeviceSequencesOptions {
  /** True if this stage has the heads. */
  readonly isLast: boolean;
  /** The factor of each loss: `lm_loss`, and also `sop_loss` if there are `sentenceOrderLabels`. */
  readonly lossFactors: LossFactors;
}

/**
 * Copies to the device the fields of a pretraining batch that this stage needs.
 *
 * @throws UsageError MTL_STAGE if a loss has no factor, or if the batch for the first or the last stage has
 *   no tokens
 */
export function maskedBatchToDevice(
  batch: MaskedStageBatch,
  { isLast, ...options }: MaskedBatchOptions,
): DeviceMaskedBatch {
  const { batchSize: numRows, sampleNumbers: rowNumbers } = batch;
  const { places, ...sequences } = sequencesToDevice({ ...batch, numRows, rowNumbers }, options);
  try {
    const targets = isLast ? targetsToDevice(batch, { ...options, places }) : undefined;
    return { ...sequences, targets, release: () => releaseSequences({ ...sequences, ...targets }) };
  } catch (error) {
    releaseSequences(sequences);
    throw error;
  }
}

function targetsToDevice(
  batch: MaskedStageBatch,
  options: Omit<MaskedBatchOptions, 'isLast'> & { readonly places: PlacesOfRows },
): MaskedTargets {
  const { lossFactors, device, packing, upload, places } = options;
  const { batchSize: b, sentenceOrderLabels } = batch;
  const masked = ownMasked(batch, options);
  const maskedFactor = findLossFactor(lossFactors, 'lm_loss');
  const orderFactor = sentenceOrderLabels && findLossFactor(lossFactors, 'sop_loss');
  const ids = (values: Int32Array): Variable =>
    uploadConstant(values, { shape: [values.length], dtype: 'int32', device, upload });
  const weights = (values: Float32Array): Variable =>
    uploadConstant(values, { shape: [values.length], dtype: 'float32', device, upload });
  // the rank that owns a sample's first token computes the sample's sentence-order loss
  const orderWeights = Float32Array.from({ length: b }, (_, sample) =>
    places.of(packing.starts[sample]!) === undefined ? 0 : orderFactor!,
  );
  return {
    maskedPositions: ids(masked.positions),
    maskedLabels: ids(masked.labels),
    sentenceOrderLabels: sentenceOrderLabels && ids(sentenceOrderLabels),
    maskedWeights: weights(masked.weights.map((weight) => weight * maskedFactor)),
    sentenceOrderWeights: sentenceOrderLabels && weights(orderWeights),
  };
}

/**
 * For each masked token, its index among this rank's tokens, its label, and its weight: 1 if the token
 * counts.
 */
interface MaskedTokens {
  readonly positions: Int32Array;
  readonly labels: Int32Array;
  readonly weights: Float32Array;
}

/**
 * Returns the masked tokens of this rank. Their count is rounded up to one of eight sizes, which limits how
 * many different shapes there are. Unused entries have weight 0.
 */
function ownMasked(
  batch: MaskedStageBatch,
  { packing, places, upload }: Omit<MaskedBatchOptions, 'isLast'> & { readonly places: PlacesOfRows },
): MaskedTokens {
  const { batchSize } = batch;
  const maskedPositions = neededTokens(batch.maskedPositions);
  const labels = neededTokens(batch.maskedLabels);
  const weights = neededTokens(batch.maskedWeights);
  const findPlace = (position: number): number | undefined =>
    places.of(packing.starts[position % batchSize]! + Math.floor(position / batchSize));
  const room = maskedPositions.length;
  const own = Array.from(maskedPositions, (position, token) => ({
    token,
    place: findPlace(position),
  })).filter(({ token, place }) => place !== undefined && (weights[token]! > 0 || places.areAll));
  // a recorded forward pass is launched again with new batches, so it has room for the maximum number of
  // masked tokens
  const step = upload === undefined ? Math.ceil(room / 8) : room;
  const size = Math.min(room, step * Math.max(1, Math.ceil(own.length / step)));
  const result = {
    positions: new Int32Array(size),
    labels: new Int32Array(size),
    weights: new Float32Array(size),
  };
  own.forEach(({ token, place }, at) => {
    result.positions[at] = place!;
    result.labels[at] = labels[token]!;
    result.weights[at] = weights[token]!;
  });
  return result;
}
