import { DataError } from '@mtl/errors';
import type { PythonJsonValue } from '../samples/python-json.js';
import {
  MaskedDataset,
  type MaskedDatasetDescription,
  type MaskedDatasetSettings,
  withTokenizerIdentifiers,
} from './masked-dataset.js';
import { checkMasking, t5Masking } from './masking-options.js';
import { maskingVocabulary, specialTokenId } from './masking-vocabulary.js';
import { type MaskedDatasetPart, maskedIndexIdentifiers, openMaskedIndex } from './open-masked-index.js';
import { createSpanTokenBatch, type SpanTokenBatch } from './span-token-batch.js';

// S = sequence length of the encoder, D = of the decoder.

const numSpecialTokens = 2;

/**
 * What all T5 datasets of a run have in common; `sequenceLength` is the encoder's, and the tokenizer has
 * `[BOS]`, `[EOS]` and sentinels `<extra_id_0>`, ...
 */
export interface T5DatasetSettings extends MaskedDatasetSettings {
  readonly decoderSequenceLength: number;
}

/** Which samples of which dataset. */
export interface T5DatasetOptions extends T5DatasetSettings, MaskedDatasetPart {}

/** A T5 dataset in a form that worker threads can receive. */
export interface T5DatasetDescription extends MaskedDatasetDescription {
  readonly kind: 't5';
  readonly decoderSequenceLength: number;
  readonly beginning: number;
  readonly end: number;
  /** int32: stand for the first, second, ... span. */
  readonly sentinels: Int32Array;
}

/** One sample with the fields of Megatron's T5MaskedWordPieceDataset. */
export interface T5Sample {
  /** int32 [S]: the text with a sentinel in place of each span. */
  readonly encoderText: Int32Array;
  /** int32 [D]: `[BOS]`, then each sentinel and its span. */
  readonly decoderText: Int32Array;
  /** int32 [D]: each sentinel and its span, then `[EOS]`; -1 on padding. */
  readonly labels: Int32Array;
  readonly encoderLength: number;
  /** Also the number of labels in the loss. */
  readonly decoderLength: number;
  readonly truncated: boolean;
}

/**
 * Megatron's T5MaskedWordPieceDataset (span corruption, Raffel 2019): the masks of BERT, longer and all of
 * them replaced; token for token the same for the same files, split, seed and sizes. Open one with
 * `openT5Dataset`.
 */
export class T5Dataset extends MaskedDataset<T5DatasetDescription, SpanTokenBatch> {
  /** The sample with the fields and values that Megatron gives it. */
  megatronSample(sample: number): T5Sample {
    const { sequenceLength, decoderSequenceLength, vocabulary, beginning, end } = this.description;
    const { length, truncated } = this.#draw(sample);
    const { positions, labels: maskedTokens, spanStarts, numSpans, numMasked } = this.masker;
    this.#checkRoom(sample);
    const encoderText = new Int32Array(sequenceLength).fill(vocabulary.padding);
    const decoderText = new Int32Array(decoderSequenceLength).fill(vocabulary.padding);
    const labels = new Int32Array(decoderSequenceLength).fill(-1);
    decoderText[0] = beginning;
    let encoderLength = 0;
    let decoderLength = 1;
    let read = 0;
    for (let span = 0; span < numSpans; span++) {
      const from = spanStarts[span]!;
      const to = spanStarts[span + 1]!;
      while (read < positions[from]!) encoderText[encoderLength++] = this.tokens[read++]!;
      // The tokens of a span are contiguous: a word has only its own tokens between its first and its last.
      read = positions[to - 1]! + 1;
      const sentinel = this.description.sentinels[span]!;
      encoderText[encoderLength++] = sentinel;
      labels[decoderLength - 1] = sentinel;
      decoderText[decoderLength++] = sentinel;
      for (let i = from; i < to; i++) {
        labels[decoderLength - 1] = maskedTokens[i]!;
        decoderText[decoderLength++] = maskedTokens[i]!;
      }
    }
    while (read < length) encoderText[encoderLength++] = this.tokens[read++]!;
    labels[1 + numSpans + numMasked - 1] = end;
    return { encoderText, decoderText, labels, encoderLength, decoderLength, truncated };
  }

  createBatch(batchSize: number): SpanTokenBatch {
    const { sequenceLength, decoderSequenceLength, vocabulary } = this.description;
    const { padding } = vocabulary;
    return createSpanTokenBatch({ batchSize, sequenceLength, decoderSequenceLength, padding });
  }

  fillRow({ sample, batch, row }: { sample: number; batch: SpanTokenBatch; row: number }): void {
    const drawn = this.megatronSample(sample);
    const { batchSize } = batch;
    for (let i = 0; i < drawn.encoderLength; i++) {
      batch.tokens[i * batchSize + row] = drawn.encoderText[i]!;
    }
    for (let i = 0; i < drawn.decoderLength; i++) {
      batch.decoderTokens[i * batchSize + row] = drawn.decoderText[i]!;
      batch.labels[i * batchSize + row] = drawn.labels[i]!;
      batch.lossMask[i * batchSize + row] = 1;
    }
    batch.lengths[row] = drawn.encoderLength;
    batch.decoderLengths[row] = drawn.decoderLength;
    batch.sampleNumbers[row] = sample;
  }

  finishBatch(batch: SpanTokenBatch): SpanTokenBatch {
    return batch;
  }

  #draw(sample: number): { length: number; truncated: boolean } {
    const { seed, vocabulary } = this.description;
    const { tokens: sentences, targetLength } = this.sentences.read(sample);
    this.random.reseed(seed + sample);
    const length = Math.min(sentences.length, targetLength);
    this.tokens.set(sentences.subarray(0, length));
    this.masker.mask({
      tokens: this.tokens,
      length,
      targetLength,
      random: this.random,
      replace: () => vocabulary.mask,
    });
    return { length, truncated: length < sentences.length };
  }

  #checkRoom(sample: number): void {
    const { numSpans, numMasked } = this.masker;
    const { decoderSequenceLength, sentinels } = this.description;
    if (numSpans > sentinels.length) {
      throw new DataError('MTL_DATA_SPANS', `sample ${sample} has ${numSpans} spans`, {
        expected: `at most ${sentinels.length}, the number of sentinels <extra_id_0>, <extra_id_1>, ...`,
        remedy: `give the vocabulary ${numSpans} sentinels or more, or mask less`,
      });
    }
    const needed = 1 + numSpans + numMasked;
    if (needed > decoderSequenceLength) {
      throw new DataError('MTL_DATA_SPANS', `sample ${sample} needs ${needed} tokens in the decoder`, {
        expected: `at most ${decoderSequenceLength}, its sequence length`,
        remedy: `raise the decoder's sequence length to ${needed} or more, or mask less`,
      });
    }
  }
}

/** The text whose md5 names a T5 dataset's cache files, as Megatron composes it. */
export function t5DatasetIdentifiers(options: T5DatasetOptions): Record<string, PythonJsonValue> {
  return maskedIndexIdentifiers(withTokenizerIdentifiers(options), t5Kind(options));
}

/**
 * Opens one part of an indexed dataset of sentences for span corruption. Throws coded errors as
 * `openBertDataset`, and for a vocabulary without `[BOS]`, `[EOS]` or sentinels.
 */
export function openT5Dataset(options: T5DatasetOptions): T5Dataset {
  const { sequenceLength, decoderSequenceLength, seed, tokenizer } = options;
  const kind = t5Kind(options);
  checkMasking(kind.masking);
  const vocabulary = maskingVocabulary(tokenizer);
  // All of them, in their own order, however the vocabulary numbers them.
  const sentinels = [specialTokenId(tokenizer, '<extra_id_0>')];
  for (let id = tokenizer.tokenIds?.get('<extra_id_1>'); id !== undefined; ) {
    sentinels.push(id);
    id = tokenizer.tokenIds?.get(`<extra_id_${sentinels.length}>`);
  }
  const { index, mapping, documents } = openMaskedIndex(withTokenizerIdentifiers(options), kind);
  return new T5Dataset({
    kind: 't5',
    index,
    mapping,
    documents,
    sequenceLength,
    decoderSequenceLength,
    seed,
    masking: kind.masking,
    vocabulary,
    beginning: specialTokenId(tokenizer, '[BOS]'),
    end: specialTokenId(tokenizer, '[EOS]'),
    sentinels: Int32Array.from(sentinels),
  });
}

function t5Kind({ masking, decoderSequenceLength }: T5DatasetSettings) {
  return {
    className: 'T5MaskedWordPieceDataset',
    numSpecialTokens,
    minimumSentences: 1,
    masking: { ...t5Masking, ...masking },
    identifiers: { sequence_length_decoder: decoderSequenceLength },
  };
}
