import type { MaskedTokenBatch } from '@mtl/data';

/**
 * What every stage of a BERT needs to know of a micro-batch: how its samples are packed, and which they are.
 */
export type BertBatchOutline = Pick<
  MaskedTokenBatch,
  'batchSize' | 'sequenceLength' | 'lengths' | 'sampleNumbers'
>;

/**
 * What a stage gets: the first and the last stage of a pipeline need the tokens, those between only the
 * outline.
 */
export type MaskedStageBatch = BertBatchOutline & Partial<MaskedTokenBatch>;
