/** How documents inside a sample are treated (Megatron's flags). */
export interface SampleMaskOptions {
  /** The end-of-document token. */
  readonly endOfDocument?: number | undefined;
  /** No loss where the input is an end of document. */
  readonly eodMaskLoss?: boolean;
  /** Positions count from 0 after each end of document. */
  readonly resetPositionIds?: boolean;
  /** No attention across ends of documents. */
  readonly resetAttentionMask?: boolean;
}

/**
 * Fills the loss mask, positions and document starts of one sample from its inputs. The end-of-document token
 * belongs to the document it ends. Every array holds one row [S].
 */
export function fillMasks(options: {
  readonly tokens: Int32Array;
  readonly lossMask: Float32Array;
  readonly positionIds: Int32Array;
  readonly keyStart: Int32Array | undefined;
  readonly masks: SampleMaskOptions;
}): void {
  const { tokens, lossMask, positionIds, keyStart, masks } = options;
  const { endOfDocument, eodMaskLoss = false, resetPositionIds = false } = masks;
  let documentStart = 0;
  for (let position = 0; position < tokens.length; position++) {
    const ends = tokens[position] === endOfDocument;
    lossMask[position] = eodMaskLoss && ends ? 0 : 1;
    positionIds[position] = resetPositionIds ? position - documentStart : position;
    if (keyStart !== undefined) keyStart[position] = documentStart;
    if (ends) documentStart = position + 1;
  }
}
